/* Tells systemd, or whoever set NOTIFY_SOCKET, what state the service is in: one datagram each. One thread. */
#ifndef TRIBUTARY_DAEMON_NOTIFY_H
#define TRIBUTARY_DAEMON_NOTIFY_H

/* "READY=1", "STOPPING=1\nSTATUS=..."; socket: the value of NOTIFY_SOCKET, or NULL, which is fine. 0, or -errno. */
int daemon_notify(const char *socket, const char *state);

#endif
