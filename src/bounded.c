// SPDX-License-Identifier: Apache-2.0
#include "bounded.h"

#include <pthread.h>
#include <signal.h>
#include <time.h>

#define MEANWHILE_MS 10

/* Shared by the caller and the thread: whoever is the last one frees it. */
struct call {
	pthread_mutex_t lock;
	pthread_cond_t done;
	void (*fn)(void *arg);
	void *arg;
	int returned, given_up;
};

static void free_call(struct call *c)
{
	pthread_cond_destroy(&c->done);
	pthread_mutex_destroy(&c->lock);
	free(c);
}

static void *make_call(void *ctx)
{
	struct call *c = ctx;
	int given_up;

	c->fn(c->arg);
	pthread_mutex_lock(&c->lock);
	c->returned = 1;
	given_up = c->given_up;
	pthread_cond_signal(&c->done);
	pthread_mutex_unlock(&c->lock);
	if (given_up) {
		free(c->arg);
		free_call(c);
	}
	return NULL;
}

static struct call *new_call(void (*fn)(void *arg), void *arg)
{
	struct call *c = calloc(1, sizeof(*c));
	pthread_condattr_t attr;

	if (!c)
		return NULL;
	c->fn = fn;
	c->arg = arg;
	pthread_mutex_init(&c->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&c->done, &attr);
	pthread_condattr_destroy(&attr);
	return c;
}

static int start(struct call *c)
{
	pthread_attr_t attr;
	pthread_t thread;
	int err;

	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	err = pthread_create(&thread, &attr, make_call, c);
	pthread_attr_destroy(&attr);
	return -err;
}

static struct timespec in_ms(unsigned int ms)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	t.tv_sec += ms / 1000;
	t.tv_nsec += (long)(ms % 1000) * 1000000;
	if (t.tv_nsec >= 1000000000) {
		t.tv_sec++;
		t.tv_nsec -= 1000000000;
	}
	return t;
}

int gt_bounded_call(void (*fn)(void *arg), void *arg, unsigned int timeout_ms,
		    void (*meanwhile)(void *ctx), void *ctx)
{
	struct call *c = new_call(fn, arg);
	int err, returned;

	if (!c)
		return -ENOMEM;
	err = start(c);
	if (err) {
		free_call(c);
		return err;
	}
	pthread_mutex_lock(&c->lock);
	for (unsigned int waited = 0; !c->returned && waited < timeout_ms; waited += MEANWHILE_MS) {
		const struct timespec until = in_ms(MEANWHILE_MS);

		if (pthread_cond_timedwait(&c->done, &c->lock, &until) == ETIMEDOUT && meanwhile) {
			pthread_mutex_unlock(&c->lock);
			meanwhile(ctx);
			pthread_mutex_lock(&c->lock);
		}
	}
	returned = c->returned;
	c->given_up = !returned;
	pthread_mutex_unlock(&c->lock);
	if (!returned)
		return -ETIMEDOUT;
	free_call(c);
	return 0;
}
