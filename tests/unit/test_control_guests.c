// SPDX-License-Identifier: Apache-2.0
/* Who else may steer a recording, by the socket in the file system. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sys/stat.h>
#include <sys/wait.h>

#include "clock.h"
#include "controlfix.h"
#include "ctlsocket.h"
#include "log.h"

static char place[96];

static int with_listener(void **state)
{
	(void)state;
	begin(-1);
	snprintf(place, sizeof(place), "/tmp/test_control.XXXXXX");
	assert_non_null(mkdtemp(place));
	strcat(place, "/s");
	assert_int_equal(gt_control_listen(control, place), 0);
	return 0;
}

static int without_listener(void **state)
{
	finish(state);
	*strrchr(place, '/') = '\0';
	return rmdir(place); /* the socket has gone */
}

static int visit(void)
{
	int fd = gt_ctlsocket_connect(place, 5);

	assert_true(fd >= 0);
	return fd;
}

static void guests_come_and_go(void **state)
{
	int a, b;

	(void)state;
	a = visit();
	b = visit();
	say(a, "mark 0 0 of a");
	say(a, "pause");
	say(b, "status");
	for (int i = 0; i < 5; i++)
		serve();
	assert_int_equal(asked.n, 3);
	assert_string_equal(heard(a), "ok");
	assert_non_null(strstr(heard(b), "ok state="));
	close(a); /* is no stop */
	serve();
	assert_int_equal(asked.n, 3);
	assert_false(is_readable(gt_control_fd(control), 0));
	gt_control_ready(control, 1, "perf_event"); /* is not for guests */
	gt_control_file(control, 1, "/x");
	gt_control_done(control, 1, 0, 0, "/x", 1);
	gt_control_ended(control, 0, &(struct gt_progress){0});
	assert_non_null(strstr(heard(b), "ended status=0 "));
	assert_null(heard(b));
	close(b);
}

/* The ninth takes the place of the one that has been silent longest: it cannot be locked out. */
static void a_bounded_number_of_guests(void **state)
{
	int fd[10];

	(void)state;
	for (int i = 0; i < 8; i++) {
		fd[i] = visit();
		serve();
	}
	say(fd[0], "pause");
	serve();
	assert_string_equal(heard(fd[0]), "ok");
	for (int i = 8; i < 10; i++) {
		fd[i] = visit();
		serve();
		say(fd[i], "resume");
		serve();
		assert_string_equal(heard(fd[i]), "ok");
	}
	for (int i = 0; i < 10; i++) {
		if (i == 1 || i == 2)
			assert_string_equal(heard(fd[i]), "");
		else
			assert_null(heard(fd[i]));
		close(fd[i]);
	}
}

/* He may have got at the socket though its mode forbids it, as a descriptor that was passed on. */
static void strangers_are_sent_away(void **state)
{
	int status;
	pid_t pid;

	(void)state;
	if (geteuid())
		skip();
	*strrchr(place, '/') = '\0';
	assert_int_equal(chmod(place, 0755), 0);
	strcat(place, "/s");
	assert_int_equal(chmod(place, 0666), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		int fd;

		if (setgid(65534) || setuid(65534))
			_exit(1);
		fd = gt_ctlsocket_connect(place, 5);
		if (fd < 0)
			_exit(2);
		(void)send(fd, "stop", 4, MSG_NOSIGNAL); /* may be too late */
		if (!is_readable(fd, 5000))
			_exit(3);
		_exit(strcmp(heard(fd), "error this recording belongs to another user") ? 4 : 0);
	}
	assert_true(is_readable(gt_control_fd(control), 5000));
	serve();
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	serve();
	assert_int_equal(asked.n, 0);
}

/* A guest that does not read is hung up on; the recording goes on. */
static void deaf_guests(void **state)
{
	int fd = visit();

	(void)state;
	serve();
	for (int i = 0; i < 5000 && send(fd, "pause", 5, MSG_DONTWAIT | MSG_NOSIGNAL) > 0; i++) {
		serve();
		asked.n = 0;
	}
	assert_int_equal(send(fd, "pause", 5, MSG_NOSIGNAL), -1);
	assert_int_equal(asked.n, 0);
	close(fd);
}

static void times_of_marks(void **state)
{
	uint64_t now = own_mono_ns(), host = gt_mono_ns();
	char text[64];
	int fd = visit();

	(void)state;
	snprintf(text, sizeof(text), "mark %llu 0 x", (unsigned long long)now);
	say(fd, text);
	serve();
	serve();
	assert_int_equal(asked.n, 1);
	/* We are in the same time namespace, so it is as far from the host's as ours. */
	assert_in_range(asked.rq[0].mono_ns, host - 1000000000, host);
	close(fd);
}

int main(void)
{
#define LISTEN(f) cmocka_unit_test_setup_teardown(f, with_listener, without_listener)
	const struct CMUnitTest tests[] = {
		LISTEN(guests_come_and_go),      LISTEN(a_bounded_number_of_guests),
		LISTEN(strangers_are_sent_away), LISTEN(deaf_guests),
		LISTEN(times_of_marks),
	};

	gt_log_setup("test", GT_LOG_ERROR);
	return cmocka_run_group_tests_name("control_guests", tests, NULL, NULL);
}
