#include "plugin/session/outlook.h"

#include "base/process.h"
#include "base/sys.h"

static size_t member_count(const struct session_census *members)
{
	return members->member_count < SESSION_MEMBERS_MAX ? members->member_count : SESSION_MEMBERS_MAX;
}

static bool has_read(const struct session_registry *registry, const struct session_member *member)
{
	return member->record.phase == SESSION_HAS_READ ||
	       session_registry_plan_state(registry, &member->process.identity, member->record.serial) ==
		       SESSION_PLAN_READ;
}

/* NCCL initialises a communicator on one thread; it ends before it has read only when that has failed. */
static bool has_gone(const struct session_member *member)
{
	return member->state == PROCESS_GONE || member->record.phase == SESSION_AWAY ||
	       (member->state == PROCESS_ALIVE &&
		!process_has_thread(member->process.identity.pid, member->record.thread));
}

enum session_outlook session_outlook_of(const struct session_registry *registry, const struct session_census *members)
{
	bool is_given_up = false;

	for (size_t i = 0; i < member_count(members); i++) {
		const struct session_member *member = &members->members[i];

		if (has_read(registry, member))
			return SESSION_OUTLOOK_READ;
		/* Of one that has ended somebody may have removed all that it left. */
		is_given_up |= has_gone(member) || member->record.planned > members->member_count;
	}
	return is_given_up ? SESSION_OUTLOOK_GIVEN_UP : SESSION_OUTLOOK_SLOW;
}

enum session_outlook session_outlook(struct session_registry *registry, uint64_t comm_id, uint64_t host)
{
	struct session_census *members = sys_zalloc(sizeof(*members));
	enum session_outlook outlook = SESSION_OUTLOOK_SLOW;
	struct diag diag;

	if (members && session_registry_look(registry, comm_id, host, members, &diag) == 0)
		outlook = session_outlook_of(registry, members);
	sys_free(members);
	return outlook;
}

void session_outlook_retract(struct session_registry *registry, uint64_t comm_id, uint64_t host)
{
	struct session_census *members = sys_zalloc(sizeof(*members));
	struct diag diag;

	if (!members)
		return;
	(void)session_registry_look(registry, comm_id, host, members, &diag);
	for (size_t i = 0; i < member_count(members); i++)
		session_registry_retract(registry, &members->members[i].process.identity,
					 members->members[i].record.serial);
	sys_free(members);
}
