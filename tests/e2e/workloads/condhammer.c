// SPDX-License-Identifier: Apache-2.0
//
// Condition variables that are no GIL's, in a tight loop, and laid out like a GIL's: cond, mutex,
// switch_cond. A library for LD_PRELOAD. GT_HAMMER names a folder with two FIFOs: a number written
// to "go" is how often two threads hand a turn to and fro; a byte in "done" tells that they did.
// Until then and after that they are blocked.

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define SIGNALS 8 // that wake nobody, for each turn

static struct {
	unsigned long interval;
	void *holder;
	int turn;
	unsigned long turns;
	pthread_cond_t cond;
	pthread_mutex_t mutex;
	pthread_cond_t switch_cond;
} lock = {
	.cond = PTHREAD_COND_INITIALIZER,
	.mutex = PTHREAD_MUTEX_INITIALIZER,
	.switch_cond = PTHREAD_COND_INITIALIZER,
};

static int go = -1, done = -1;

// Gives the turn away and waits for it, as often as the other one does.
static void play(int mine, long rounds)
{
	pthread_cond_t *own = mine ? &lock.cond : &lock.switch_cond;
	pthread_cond_t *other = mine ? &lock.switch_cond : &lock.cond;

	pthread_mutex_lock(&lock.mutex);
	for (; rounds > 0; rounds--) {
		while (lock.turn != mine) {
			struct timespec until;

			clock_gettime(CLOCK_REALTIME, &until);
			until.tv_sec++;
			pthread_cond_timedwait(own, &lock.mutex, &until);
		}
		lock.turn = !mine;
		lock.turns++;
		for (int i = 0; i < SIGNALS; i++)
			pthread_cond_signal(other);
	}
	pthread_mutex_unlock(&lock.mutex);
}

static void *second(void *rounds)
{
	play(0, *(long *)rounds);
	return NULL;
}

static void *first(void *unused)
{
	long rounds;

	(void)unused;
	while (read(go, &rounds, sizeof(rounds)) == sizeof(rounds)) {
		pthread_t other;

		if (pthread_create(&other, NULL, second, &rounds))
			break;
		play(1, rounds);
		pthread_join(other, NULL);
		if (write(done, "d", 1) != 1)
			break;
	}
	return NULL;
}

__attribute__((constructor)) static void start(void)
{
	const char *folder = getenv("GT_HAMMER");
	char path[4096];
	pthread_t id;

	if (!folder)
		return;
	snprintf(path, sizeof(path), "%s/go", folder);
	go = open(path, O_RDWR | O_CLOEXEC);
	snprintf(path, sizeof(path), "%s/done", folder);
	done = open(path, O_RDWR | O_CLOEXEC);
	if (go < 0 || done < 0 || pthread_create(&id, NULL, first, NULL)) {
		fprintf(stderr, "condhammer: cannot start in %s\n", folder);
		_exit(1);
	}
}
