/* SPDX-License-Identifier: Apache-2.0 */
/*
 * So that the plugin loads where glibc is older than where it was built: functions that glibc before 2.33 had in its headers
 * alone, and those for which headers from 2.38 on take a newer one of the same effect. They are hidden: nobody else in the
 * process is served by them. mk/glibc has what only changed its version.
 */
#include <fcntl.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

int fstatat(int directory, const char *restrict path, struct stat *restrict st, int flags)
{
	return (int)syscall(SYS_newfstatat, directory, path, st, flags);
}

int stat(const char *restrict path, struct stat *restrict st)
{
	return fstatat(AT_FDCWD, path, st, 0);
}

int lstat(const char *restrict path, struct stat *restrict st)
{
	return fstatat(AT_FDCWD, path, st, AT_SYMLINK_NOFOLLOW);
}

int fstat(int fd, struct stat *st)
{
	return fstatat(fd, "", st, AT_EMPTY_PATH);
}

long older_strtol(const char *restrict text, char **restrict end, int base) __asm__("strtol");
int older_vsscanf(const char *restrict text, const char *restrict format, va_list list) __asm__("__isoc99_vsscanf");
long __isoc23_strtol(const char *restrict text, char **restrict end, int base);
int __isoc23_sscanf(const char *restrict text, const char *restrict format, ...);

long __isoc23_strtol(const char *restrict text, char **restrict end, int base)
{
	return older_strtol(text, end, base);
}

int __isoc23_sscanf(const char *restrict text, const char *restrict format, ...)
{
	va_list list;
	int found;

	va_start(list, format);
	found = older_vsscanf(text, format, list);
	va_end(list);
	return found;
}
