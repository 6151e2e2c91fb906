// SPDX-License-Identifier: Apache-2.0
/*
 * fake_giltrace: what a giltrace may do wrong, and how libgiltrace takes it (test_client*.c). It
 * speaks the protocol of docs/control.md on descriptor 0, by a script of steps separated by ";":
 * --script='say=giltrace: dear me;exit=5'. Without a script, or behind it, it exits with status 0.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static struct {
	char **argv;
	const char *state;
	int notify; /* a byte for each request; -1: nobody wants to know */
	int status; /* that `ended` tells */
	unsigned marks;
	char owed[256]; /* an answer that is late */
} me = {.state = "recording", .notify = -1};

static void say(const char *text)
{
	dprintf(2, "%s\n", text);
}

static void post(const char *text)
{
	if (send(0, text, strlen(text), MSG_NOSIGNAL) < 0 && errno != EPIPE)
		say("giltrace: cannot send");
}

/* ---- steps ---- */

/* What a program finds when it is started. */
static void look(void)
{
	static const char *const names[] = {"LD_PRELOAD", "LD_AUDIT", "LD_LIBRARY_PATH"};
	struct sigaction act;
	struct stat fd, null;
	int type = 0, ignored = 0, blocked = 0;
	socklen_t len = sizeof(type);
	sigset_t mask;

	(void)getsockopt(0, SOL_SOCKET, SO_TYPE, &type, &len);
	if (!fstat(1, &fd) && !stat("/dev/null", &null))
		dprintf(2, "out null %d\n", fd.st_rdev == null.st_rdev);
	if (!fstat(2, &fd))
		dprintf(2, "err pipe %d nonblocking %d\n", S_ISFIFO(fd.st_mode),
			!!(fcntl(2, F_GETFL) & O_NONBLOCK));
	sigprocmask(SIG_BLOCK, NULL, &mask);
	for (int sig = 1; sig < 32; sig++) {
		blocked += sigismember(&mask, sig);
		ignored += !sigaction(sig, NULL, &act) && act.sa_handler != SIG_DFL;
	}
	dprintf(2, "in seqpacket %d blocked %d ignored %d leader %d\n", type == SOCK_SEQPACKET,
		blocked, ignored, getpgrp() == getpid());
	for (size_t i = 0; i < 3; i++)
		if (getenv(names[i]))
			dprintf(2, "has %s\n", names[i]);
	for (int fd_n = 3; fd_n < 64; fd_n++)
		if (!fstat(fd_n, &fd) && S_ISSOCK(fd.st_mode))
			dprintf(2, "inherits socket %d\n", fd_n);
	dprintf(2, "env keeps %s\n", getenv("GT_TEST_KEEPS") ? getenv("GT_TEST_KEEPS") : "nothing");
	for (char **a = me.argv + 1; *a; a++)
		if (strncmp(*a, "--script", 8) != 0)
			dprintf(2, "arg %s\n", *a);
}

/* All of it. */
static void show_environment(void)
{
	for (char **e = environ; *e; e++)
		dprintf(2, "variable %s\n", *e);
}

static void answer(const char *request, const char *how)
{
	char text[256] = "ok";

	if (!strcmp(request, "pause"))
		me.state = "paused";
	else if (!strcmp(request, "resume"))
		me.state = "recording";
	else if (!strcmp(request, "status"))
		snprintf(text, sizeof(text),
			 "ok state=%s elapsed_ns=18446744073709551615 later=7 paused_ns=3 "
			 "processes=2 events=4711 lost=5 bytes=6 marks=%u",
			 me.state, me.marks);
	else
		snprintf(text, sizeof(text), "error unknown request");
	if (!strcmp(how, "refuse"))
		snprintf(text, sizeof(text), "error not today");
	if (!strcmp(how, "late") && !me.owed[0]) {
		strcpy(me.owed, text);
		return;
	}
	if (!strcmp(how, "late"))
		post(me.owed);
	me.owed[0] = '\0';
	if (strcmp(how, "mute") != 0)
		post(text);
}

/* Answers until it is told to stop, or the other end is gone. */
static void serve(const char *how)
{
	char packet[8193];
	long tid;
	int name;

	for (;;) {
		ssize_t n = read(0, packet, sizeof(packet) - 1);

		if (n <= 0)
			return;
		packet[n] = '\0';
		if (me.notify >= 0 && write(me.notify, "x", 1) != 1)
			return;
		if (!strcmp(packet, "stop"))
			return;
		if (sscanf(packet, "mark %*u %ld %n", &tid, &name) == 1) {
			me.marks++;
			if (!strcmp(how, "tell"))
				dprintf(2, "mark of %ld: %s\n", tid, packet + name);
			continue;
		}
		answer(packet, how);
	}
}

static void end(void)
{
	char text[256];

	post("done 1 10 0 /data/GIL_1_rank_0.gil");
	post("done 2 20 5 /data/a b/GIL_2_rank_0.gil");
	snprintf(text, sizeof(text),
		 "ended status=%d files=2 events=30 lost=5 bytes=600 elapsed_ns=7000 paused_ns=9 "
		 "marks=%u",
		 me.status, me.marks);
	post(text);
}

static void flood(int n)
{
	char bytes[64];
	unsigned next = 1;

	for (int i = 0; i < n; i++) {
		for (size_t j = 0; j < sizeof(bytes); j++) {
			next = next * 1103515245 + 12345;
			memcpy(&bytes[j], (char *)&next + 2, 1);
		}
		(void)send(0, bytes, sizeof(bytes), MSG_NOSIGNAL);
	}
}

/* A line of that length to standard error, in which all bytes occur. */
static void babble(int n)
{
	for (int i = 0; i < n; i++)
		if (dprintf(2, "%c", i + 1 < n ? i % 255 + 1 : '\n') < 0)
			break;
}

static void huge(void)
{
	static char bytes[9000];

	memset(bytes, 'e', sizeof(bytes));
	memcpy(bytes, "ended status=7 files=", 21);
	(void)send(0, bytes, sizeof(bytes), MSG_NOSIGNAL);
}

/* Until there is no room. */
static void fill(const char *packet)
{
	while (send(0, packet, strlen(packet), MSG_NOSIGNAL | MSG_DONTWAIT) > 0)
		;
}

static void hang(void)
{
	for (;;)
		pause();
}

/* A child that holds what we hold. */
static void split(void)
{
	pid_t pid = fork();

	if (!pid)
		hang();
	dprintf(2, "child %d\n", (int)pid);
}

static void step(const char *name, const char *value)
{
	struct pollfd in = {.fd = 0, .events = POLLIN};

	if (!strcmp(name, "say"))
		say(value);
	else if (!strcmp(name, "send"))
		post(value);
	else if (!strcmp(name, "exit"))
		_exit(atoi(value));
	else if (!strcmp(name, "kill"))
		raise(atoi(value));
	else if (!strcmp(name, "hang"))
		hang();
	else if (!strcmp(name, "deaf"))
		signal(SIGTERM, SIG_IGN);
	else if (!strcmp(name, "shut"))
		close(0);
	else if (!strcmp(name, "look"))
		look();
	else if (!strcmp(name, "environment"))
		show_environment();
	else if (!strcmp(name, "status"))
		me.status = atoi(value);
	else if (!strcmp(name, "serve"))
		serve(value);
	else if (!strcmp(name, "end"))
		end();
	else if (!strcmp(name, "flood"))
		flood(atoi(value));
	else if (!strcmp(name, "babble"))
		babble(atoi(value));
	else if (!strcmp(name, "huge"))
		huge();
	else if (!strcmp(name, "fill"))
		fill(value);
	else if (!strcmp(name, "split"))
		split();
	else if (!strcmp(name, "peek")) /* until there is something, which stays unread */
		(void)poll(&in, 1, -1);
	else if (!strcmp(name, "work")) /* for so many milliseconds */
		(void)poll(NULL, 0, atoi(value));
	else if (!strcmp(name, "notify"))
		me.notify = open(value, O_WRONLY | O_CLOEXEC);
	else if (!strcmp(name, "touch"))
		close(open(value, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
	else
		say("giltrace: this script is not understood");
}

int main(int argc, char **argv)
{
	static const char option[] = "--script=";

	me.argv = argv;
	for (int i = 1; i < argc; i++) {
		char *save = NULL;

		if (strncmp(argv[i], option, strlen(option)) != 0)
			continue;
		for (char *s = strtok_r(argv[i] + strlen(option), ";", &save); s;
		     s = strtok_r(NULL, ";", &save)) {
			char *value = strchr(s, '=');

			if (value)
				*value++ = '\0';
			step(s, value ? value : "");
		}
	}
	return 0;
}
