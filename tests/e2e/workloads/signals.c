// SPDX-License-Identifier: Apache-2.0
//
// A second truth, from the first instruction of a program on: LD_PRELOADed, it counts the calls of
// pthread_cond_signal(). CPython makes one whenever it has taken the GIL and one whenever it has
// released it (since 3.2, with the forced switches that all builds have), and on Linux it has no
// other use for condition variables in a program without interpreters or events of its own. At the
// end the count and the time of the first call go to the file that $GT_SIGNALS names.

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static atomic_long count;
static long long first_ns; // written by the first caller only

int pthread_cond_signal(pthread_cond_t *cond)
{
	static int (*next)(pthread_cond_t *);
	struct timespec ts;

	if (!atomic_fetch_add(&count, 1)) {
		clock_gettime(CLOCK_MONOTONIC, &ts);
		first_ns = ts.tv_sec * 1000000000LL + ts.tv_nsec;
	}
	// On x86-64 older programs ask for another version of it than dlsym() would find first.
	if (!next)
		next = (int (*)(pthread_cond_t *))dlvsym(RTLD_NEXT, "pthread_cond_signal",
							 "GLIBC_2.3.2");
	if (!next)
		next = (int (*)(pthread_cond_t *))dlsym(RTLD_NEXT, "pthread_cond_signal");
	return next(cond);
}

__attribute__((destructor)) static void tell(void)
{
	const char *path = getenv("GT_SIGNALS");
	FILE *f = path ? fopen(path, "w") : NULL;

	if (!f)
		return;
	fprintf(f, "%ld %lld\n", atomic_load(&count), first_ns);
	fclose(f);
}
