// SPDX-License-Identifier: Apache-2.0
/* Who owns a recording, over a socket pair: one who behaves, and those who do not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "controlfix.h"
#include "log.h"

static int ours; /* our end */

static int with_owner(void **state)
{
	int sv[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv), 0);
	begin(sv[1]);
	owner = sv[0];
	ours = sv[1];
	return 0;
}

static void requests_and_answers(void **state)
{
	(void)state;
	assert_false(is_readable(gt_control_fd(control), 0));
	say(owner, "pause");
	say(owner, "status");
	say(owner, "mark 0 42 epoch 3");
	say(owner, "resume");
	say(owner, "threads\n1 one");
	say(owner, "stop");
	assert_true(is_readable(gt_control_fd(control), 0));
	serve();
	assert_false(is_readable(gt_control_fd(control), 0));
	assert_int_equal(asked.n, 6);
	for (int i = 0; i < 6; i++)
		assert_int_equal(asked.rq[i].from, getpid());
	assert_int_equal(asked.rq[2].ns_tid, 42);
	assert_true(!asked.rq[2].mono_ns);
	assert_string_equal(asked.text, "epoch 3");
	assert_int_equal(asked.rq[4].kind, GT_REQUEST_THREADS);
	assert_int_equal(asked.rq[5].kind, GT_REQUEST_STOP);
	assert_string_equal(heard(owner), "ok");
	assert_string_equal(heard(owner), "ok state=recording elapsed_ns=1 paused_ns=2 processes=8 "
					  "events=3 lost=4 bytes=5 marks=6");
	assert_string_equal(heard(owner), "ok");
	assert_null(heard(owner));
	say(owner, "status");
	serve();
	assert_non_null(strstr(heard(owner), "ok state=paused "));
}

/* With --ring and without. */
static void what_is_in_memory(void **state)
{
	(void)state;
	say(owner, "dump");
	serve();
	assert_int_equal(asked.rq[0].kind, GT_REQUEST_DUMP);
	assert_string_equal(heard(owner),
			    "error nothing is kept in memory: it was started without --ring");
	asked.dump = (struct gt_progress){.ring = 1, .dumped = 3};
	say(owner, "dump");
	say(owner, "status");
	serve();
	assert_string_equal(heard(owner), "ok files=3");
	assert_string_equal(heard(owner),
			    "ok state=paused elapsed_ns=1 paused_ns=2 processes=8 events=3 lost=4 "
			    "bytes=5 marks=6 files=7 kept_ns=9 kept_events=10 kept_bytes=11");
	asked.dump.failed = 1;
	say(owner, "dump");
	serve();
	assert_string_equal(heard(owner), "error 1 of 4 files could not be written");
}

static void news_for_the_owner(void **state)
{
	const struct gt_progress all = {.files = 1,
					.events = 2,
					.lost = 3,
					.bytes = 4,
					.elapsed_ns = 5,
					.paused_ns = 6,
					.marks = 7};

	(void)state;
	gt_control_file(control, 12, "/data/a b.gil");
	gt_control_ready(control, 3, "perf_event");
	gt_control_done(control, 12, 100, 2, "/data/a b.gil", 1);
	gt_control_ended(control, 6, &all);
	assert_string_equal(heard(owner), "file 12 /data/a b.gil");
	assert_string_equal(heard(owner), "ready protocol=1 version=" GT_VERSION
					  " processes=3 backend=perf_event");
	assert_string_equal(heard(owner), "done 12 100 2 /data/a b.gil");
	assert_string_equal(heard(owner), "ended status=6 files=1 events=2 lost=3 bytes=4 "
					  "elapsed_ns=5 paused_ns=6 marks=7");
	assert_null(heard(owner));
}

/* Not even what nobody has read of it, which resets a connection, takes it from the owner. */
static void the_last_word_arrives(void **state)
{
	(void)state;
	say(owner, "mark 0 0 too late");
	say(owner, "status");
	gt_control_ended(control, 0, &(struct gt_progress){0});
	gt_control_close(control);
	control = NULL;
	assert_non_null(strstr(heard(owner), "ended status=0 "));
	assert_string_equal(heard(owner), "");
}

static void hostile_packets(void **state)
{
	static char large[GT_PACKET_MAX + 1];
	int errors = 0;

	(void)state;
	memset(large, 'x', sizeof(large));
	assert_int_equal(send(owner, large, sizeof(large), 0), sizeof(large));
	memcpy(large, "mark 0 0 ", 9);
	assert_int_equal(send(owner, large, GT_PACKET_MAX, 0), GT_PACKET_MAX);
	assert_int_equal(send(owner, "", 0, 0), 0); /* no end of the connection */
	assert_int_equal(send(owner, "stop\0", 5, 0), 5);
	say(owner, "mark 1 2");
	say(owner, "%s%s%s%n");
	say(owner, "status");
	serve();
	assert_int_equal(asked.n, 2);
	assert_int_equal(asked.rq[0].kind, GT_REQUEST_MARK);
	assert_int_equal(asked.rq[1].kind, GT_REQUEST_STATUS);
	for (const char *text = heard(owner); text; text = heard(owner))
		errors += !strncmp(text, "error ", 6);
	assert_int_equal(errors, 4);
}

/* Descriptors that are sent along are refused (Linux 6.16), or else not kept. */
static void takes_no_descriptors(void **state)
{
	char byte = 's', space[CMSG_SPACE(sizeof(int))] = {0};
	struct iovec io = {&byte, 1};
	struct msghdr m = {.msg_iov = &io,
			   .msg_iovlen = 1,
			   .msg_control = space,
			   .msg_controllen = sizeof(space)};
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	int pipes[2];

	(void)state;
	assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &pipes[1], sizeof(int));
	if (sendmsg(owner, &m, 0) != 1)
		assert_int_equal(errno, EPERM);
	close(pipes[1]);
	serve();
	assert_int_equal(read(pipes[0], &byte, 1), 0); /* nobody has the other end */
	close(pipes[0]);
}

/* So many marks must not keep the session from its rings. */
static void takes_some_at_once(void **state)
{
	int sent = 0, rounds = 0;

	(void)state;
	while (send(owner, "mark 0 0 x", 10, MSG_DONTWAIT) == 10)
		sent++;
	assert_in_range(sent, 65, 4000);
	while (is_readable(gt_control_fd(control), 0)) {
		int before = asked.n;

		serve();
		assert_in_range(asked.n - before, 1, 64);
		rounds++;
	}
	assert_int_equal(asked.n, sent);
	assert_in_range(rounds, 2, 4000);
}

/* One who asks and asks and does not read is parted with, without anybody waiting for him. */
static void does_not_wait_for_answers_to_be_read(void **state)
{
	uint64_t begin_ns = own_mono_ns();

	(void)state;
	for (int i = 0; i < 10000 && (!asked.n || asked.rq[asked.n - 1].kind != GT_REQUEST_STOP);
	     i++) {
		asked.n = asked.n > 4000 ? 0 : asked.n;
		(void)send(owner, "status", 6, MSG_DONTWAIT | MSG_NOSIGNAL);
		serve();
	}
	assert_int_equal(asked.rq[asked.n - 1].kind, GT_REQUEST_STOP);
	assert_int_equal(asked.rq[asked.n - 1].from, 0);
	assert_in_range(own_mono_ns() - begin_ns, 0, 5000000000ull);
	assert_int_equal(send(owner, "status", 6, MSG_NOSIGNAL), -1);
	serve();
	assert_false(is_readable(gt_control_fd(control), 0));
}

/* News that nobody reads cost a second in all; the last word has room all the same. */
static void waits_a_second_for_news_to_be_read(void **state)
{
	const struct gt_progress all = {0};
	uint64_t begin_ns = own_mono_ns();
	int files = 0, ready = 0, ended = 0;

	(void)state;
	for (int i = 0; i < 3000; i++)
		gt_control_file(control, i, "/data/GIL.gil");
	assert_in_range(own_mono_ns() - begin_ns, 900000000, 3000000000u);
	begin_ns = own_mono_ns();
	gt_control_ready(control, 3000, "perf_event");
	for (int i = 0; i < 3000; i++)
		gt_control_done(control, i, 0, 0, "/data/GIL.gil", 1);
	gt_control_ended(control, 0, &all);
	assert_in_range(own_mono_ns() - begin_ns, 0, 500000000);
	for (const char *text = heard(owner); text; text = heard(owner)) {
		files += !strncmp(text, "file ", 5);
		ready += !strncmp(text, "ready ", 6);
		ended += !strncmp(text, "ended ", 6);
		assert_true(strncmp(text, "done ", 5) != 0);
	}
	assert_in_range(files, 10, 2999);
	assert_int_equal(ready, 1);
	assert_int_equal(ended, 1);
}

static void the_last_word_waits_for_a_reader(void **state)
{
	const struct gt_progress all = {0};
	int ended = 0, status, room = 4096;
	char packet[64];
	pid_t pid;

	(void)state;
	/* The kernel counts what lies in the reader's queue as the sender's. */
	assert_int_equal(setsockopt(ours, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room)), 0);
	while (send(ours, "ok", 2, MSG_DONTWAIT) == 2)
		;
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		gt_control_ended(control, 0, &all);
		_exit(0);
	}
	while (!ended) {
		ssize_t len;

		assert_true(is_readable(owner, 5000));
		len = recv(owner, packet, sizeof(packet) - 1, 0);
		assert_true(len > 0);
		packet[len] = '\0';
		ended = !strncmp(packet, "ended ", 6);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void its_end_is_a_stop(void **state)
{
	(void)state;
	say(owner, "mark 0 0 last");
	close(owner);
	owner = -1;
	serve();
	assert_int_equal(asked.n, 2);
	assert_string_equal(asked.text, "last");
	assert_int_equal(asked.rq[1].kind, GT_REQUEST_STOP);
	assert_false(is_readable(gt_control_fd(control), 0));
	serve();
	assert_int_equal(asked.n, 2);
}

/* It had not read the answers, which resets the connection; what it had sent counts all the same.
 */
static void its_last_words_count(void **state)
{
	(void)state;
	say(owner, "pause");
	serve();
	say(owner, "mark 0 0 one");
	say(owner, "mark 0 0 last");
	close(owner);
	owner = -1;
	serve();
	assert_int_equal(asked.n, 4);
	assert_string_equal(asked.text, "last");
	assert_int_equal(asked.rq[3].kind, GT_REQUEST_STOP);
}

/* ---- an owner whose child outlives it ---- */

struct family {
	pid_t pid;  /* the owner */
	int socket; /* our end */
	int tell;   /* a byte: go on, and end */
	int child;  /* readable with its end when the child, who has the socket, has ended */
};

/* A process that makes the socket and hands us one end, as a program does that starts us. */
static struct family start_family(void)
{
	int by[2], go[2], life[2];
	char space[CMSG_SPACE(sizeof(int))], byte = 'x';
	struct iovec io = {&byte, 1};
	struct msghdr m = {.msg_iov = &io,
			   .msg_iovlen = 1,
			   .msg_control = space,
			   .msg_controllen = sizeof(space)};
	struct family f;

	assert_int_equal(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, by), 0);
	assert_int_equal(pipe2(go, O_CLOEXEC) | pipe2(life, O_CLOEXEC), 0);
	f.pid = fork();
	assert_true(f.pid >= 0);
	if (!f.pid) {
		struct cmsghdr *c = CMSG_FIRSTHDR(&m);
		int sv[2];

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sv))
			_exit(1);
		if (!fork()) { /* has sv[0], too */
			prctl(PR_SET_PDEATHSIG, 0);
			close(sv[1]);
			close(go[1]);
			if (read(go[0], &byte, 1) == 1)
				(void)!read(go[0], &byte, 1);
			_exit(0);
		}
		close(life[1]);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(c), &sv[1], sizeof(int));
		if (sendmsg(by[1], &m, 0) != 1)
			_exit(2);
		close(sv[1]);
		(void)!recv(by[1], &byte, 1, 0); /* until we are let go */
		(void)!send(sv[0], "mark 0 7 last words", 19, 0);
		_exit(0);
	}
	assert_int_equal(recvmsg(by[0], &m, MSG_CMSG_CLOEXEC), 1);
	memcpy(&f.socket, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(int));
	f.tell = by[0];
	close(by[1]);
	close(go[0]);
	close(life[1]);
	f.child = life[0];
	/* The child ends when go[1] is closed, which is left to the end of the test. */
	assert_int_equal(fcntl(go[1], F_DUPFD_CLOEXEC, 500) >= 500, 1);
	close(go[1]);
	return f;
}

static void an_owner_that_ends_while_its_child_lives(void **state)
{
	struct family f = start_family();

	(void)state;
	begin(f.socket);
	serve();
	assert_int_equal(asked.n, 0);
	assert_int_equal(send(f.tell, "x", 1, 0), 1);
	assert_int_equal(waitpid(f.pid, NULL, 0), f.pid);
	assert_true(is_readable(gt_control_fd(control), 5000));
	while (!asked.n || asked.rq[asked.n - 1].kind != GT_REQUEST_STOP) {
		assert_true(is_readable(gt_control_fd(control), 5000));
		serve();
	}
	assert_int_equal(asked.n, 2);
	assert_string_equal(asked.text, "last words");
	assert_int_equal(asked.rq[0].from, f.pid);
	assert_false(is_readable(f.child, 0)); /* it lives on */
	assert_false(is_readable(gt_control_fd(control), 0));
	for (int fd = 500; fd < 520; fd++)
		close(fd);
	close(f.tell);
	assert_true(is_readable(f.child, 5000));
	close(f.child);
}

static void an_owner_that_has_ended_before(void **state)
{
	struct family f = start_family();
	struct gt_control *none = NULL;

	(void)state;
	assert_int_equal(send(f.tell, "x", 1, 0), 1);
	assert_int_equal(waitpid(f.pid, NULL, 0), f.pid);
	assert_int_equal(gt_control_open(f.socket, &none), -ESRCH);
	gt_control_close(none);
	assert_int_equal(fcntl(f.socket, F_GETFD), -1);
	for (int fd = 500; fd < 520; fd++)
		close(fd);
	close(f.tell);
	close(f.child);
	control = NULL;
	owner = -1;
}

int main(void)
{
#define OWNED(f) cmocka_unit_test_setup_teardown(f, with_owner, finish)
	const struct CMUnitTest tests[] = {
		OWNED(requests_and_answers),
		OWNED(what_is_in_memory),
		OWNED(news_for_the_owner),
		OWNED(the_last_word_arrives),
		OWNED(hostile_packets),
		OWNED(takes_no_descriptors),
		OWNED(takes_some_at_once),
		OWNED(does_not_wait_for_answers_to_be_read),
		OWNED(waits_a_second_for_news_to_be_read),
		OWNED(the_last_word_waits_for_a_reader),
		OWNED(its_end_is_a_stop),
		OWNED(its_last_words_count),
		cmocka_unit_test_teardown(an_owner_that_ends_while_its_child_lives, finish),
		cmocka_unit_test_teardown(an_owner_that_has_ended_before, finish),
	};

	gt_log_setup("test", GT_LOG_ERROR);
	return cmocka_run_group_tests_name("control", tests, NULL, NULL);
}
