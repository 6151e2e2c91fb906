// SPDX-License-Identifier: Apache-2.0
/* Calls that return, and one that hangs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sys/eventfd.h>

#include "bounded.h"

struct arg {
	int wait_for, returned; /* eventfds; wait_for -1: at once */
	int value;
};

static void call(void *ctx)
{
	struct arg *arg = ctx;
	eventfd_t n;
	int returned = arg->returned;

	if (arg->wait_for >= 0)
		(void)eventfd_read(arg->wait_for, &n);
	arg->value = 4711;
	(void)eventfd_write(returned, 1);
}

static void count(void *ctx)
{
	(*(int *)ctx)++;
}

static struct arg *new_arg(int wait_for, int returned)
{
	struct arg *arg = malloc(sizeof(*arg));

	assert_non_null(arg);
	*arg = (struct arg){.wait_for = wait_for, .returned = returned};
	return arg;
}

static void calls_that_return(void **state)
{
	int returned = eventfd(0, 0), times = 0;

	(void)state;
	for (int i = 0; i < 1000; i++) {
		struct arg *arg = new_arg(-1, returned);

		assert_int_equal(gt_bounded_call(call, arg, 60000, count, &times), 0);
		assert_int_equal(arg->value, 4711);
		free(arg);
	}
	close(returned);
}

/* The caller goes on; what the call used is freed when it returns after all. */
static void one_that_hangs(void **state)
{
	int go = eventfd(0, 0), returned = eventfd(0, 0), times = 0;
	eventfd_t n;

	(void)state;
	assert_int_equal(gt_bounded_call(call, new_arg(go, returned), 50, count, &times),
			 -ETIMEDOUT);
	assert_true(times > 0);
	assert_int_equal(eventfd_write(go, 1), 0);
	assert_int_equal(eventfd_read(returned, &n), 0);
	close(go);
	close(returned);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(calls_that_return),
		cmocka_unit_test(one_that_hangs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
