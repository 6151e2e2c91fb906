// SPDX-License-Identifier: Apache-2.0
//
// CPython inside a program that is no python, for the attach tests. Compiled by them, without
// CPython's headers, so that it fits every version:
//
//   cc embed.c -lpython3.x       one CPython, linked in
//   cc -DEMBED_LOAD embed.c      argv: "new" or "local", then HOME and LIBRARY of each CPython.
//                                new: a namespace with a C library of its own (dlmopen);
//                                local: one namespace, but no symbol is shared
//
// Each CPython gets THREADS C threads, the first of which starts it. Nobody holds a GIL between two
// commands, and every thread is then blocked in read(2). The first line on standard output tells
// the threads, as JSON; commands are lines on standard input, each answered by a line:
//
//   gil N    each thread takes and releases its GIL N times
//   spin     each thread computes, without the GIL
//   doze     the first thread of each CPython computes and sleeps in turns, without the GIL
//   halt     ... and no longer

#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define THREADS 2
#define PYTHONS 4
#define SPIN    -1L
#define DOZE    -2L

typedef int create_fn(pthread_t *id, const pthread_attr_t *attr, void *(*fn)(void *), void *arg);

struct python {
	void (*initialize)(int signals);
	void (*init_threads)(void); // may be missing; CPython 3.6 has no GIL without it
	void *(*save)(void);
	int (*ensure)(void);
	void (*release)(int state);
	create_fn *create; // of the C library that it uses: a thread of another is no thread there
};

struct thread {
	const struct python *py;
	int first;       // it starts its CPython
	int here, there; // ends of a pair of sockets: the thread's, the main thread's
	long tid;
};

static struct python pythons[PYTHONS];
static struct thread threads[PYTHONS][THREADS];
static int n_pythons;
static volatile int spinning;

static void fail(const char *what)
{
	const char *why = dlerror();

	fprintf(stderr, "embed: %s: %s\n", what, why ? why : "failed");
	_exit(1);
}

static void say(int fd, long value)
{
	if (write(fd, &value, sizeof(value)) != sizeof(value))
		fail("write");
}

static long hear(int fd)
{
	long value;

	if (read(fd, &value, sizeof(value)) != sizeof(value))
		fail("read");
	return value;
}

static void *run(void *arg)
{
	const struct thread *t = arg;

	if (t->first) {
		t->py->initialize(0);
		if (t->py->init_threads)
			t->py->init_threads();
		t->py->save();
	}
	say(t->here, syscall(SYS_gettid));
	for (;;) {
		long rounds = hear(t->here);

		while (spinning && (rounds == SPIN || (rounds == DOZE && t->first)))
			for (volatile int i = 0; i < 100000; i++)
				if (i == 0 && rounds == DOZE)
					usleep(100);
		for (; rounds > 0; rounds--)
			t->py->release(t->py->ensure());
		say(t->here, 0);
	}
	return NULL;
}

#ifdef EMBED_LOAD
static void *symbol(void *library, const char *name)
{
	void *address = dlsym(library, name);

	if (!address)
		fail(name);
	return address;
}

static struct python load(const char *how, const char *home, const char *path)
{
	void *lib = strcmp(how, "new") == 0 ? dlmopen(LM_ID_NEWLM, path, RTLD_NOW)
					    : dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
	int (*set)(const char *name, const char *value, int replace);

	if (!lib)
		fail(path);
	set = symbol(lib, "setenv"); // of its own C library, where it has one
	set("PYTHONHOME", home, 1);
	return (struct python){
		.initialize = symbol(lib, "Py_InitializeEx"),
		.init_threads = dlsym(lib, "PyEval_InitThreads"),
		.save = symbol(lib, "PyEval_SaveThread"),
		.ensure = symbol(lib, "PyGILState_Ensure"),
		.release = symbol(lib, "PyGILState_Release"),
		.create = symbol(lib, "pthread_create"),
	};
}
#else
void Py_InitializeEx(int signals);
void PyEval_InitThreads(void) __attribute__((weak));
void *PyEval_SaveThread(void);
int PyGILState_Ensure(void);
void PyGILState_Release(int state);

static const struct python linked = {
	.initialize = Py_InitializeEx,
	.init_threads = PyEval_InitThreads,
	.save = PyEval_SaveThread,
	.ensure = PyGILState_Ensure,
	.release = PyGILState_Release,
	.create = pthread_create,
};
#endif

static void start(const struct python *py)
{
	int n = n_pythons++;

	pythons[n] = *py;
	for (int i = 0; i < THREADS; i++) {
		struct thread *t = &threads[n][i];
		pthread_t id;
		int ends[2];

		if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends))
			fail("socketpair");
		*t = (struct thread){&pythons[n], i == 0, ends[0], ends[1], 0};
		if (py->create(&id, NULL, run, t))
			fail("pthread_create");
		t->tid = hear(t->there);
	}
}

static void tell_all(long value)
{
	for (int n = 0; n < n_pythons; n++)
		for (int i = 0; i < THREADS; i++)
			say(threads[n][i].there, value);
}

static void hear_all(void)
{
	for (int n = 0; n < n_pythons; n++)
		for (int i = 0; i < THREADS; i++)
			hear(threads[n][i].there);
}

int main(int argc, char **argv)
{
	char line[64];

#ifdef EMBED_LOAD
	for (int i = 2; i + 1 < argc && n_pythons < PYTHONS; i += 2) {
		struct python py = load(argv[1], argv[i], argv[i + 1]);

		start(&py);
	}
#else
	(void)argc, (void)argv;
	start(&linked);
#endif
	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("[");
	for (int n = 0; n < n_pythons; n++)
		printf("%s[%ld, %ld]", n ? ", " : "", threads[n][0].tid, threads[n][1].tid);
	printf("]\n");
	while (fgets(line, sizeof(line), stdin)) {
		if (strncmp(line, "gil ", 4) == 0) {
			tell_all(atol(line + 4));
			hear_all();
		} else if (strcmp(line, "spin\n") == 0 || strcmp(line, "doze\n") == 0) {
			spinning = 1;
			tell_all(line[0] == 's' ? SPIN : DOZE);
		} else if (strcmp(line, "halt\n") == 0) {
			spinning = 0;
			hear_all();
		} else {
			fail(line);
		}
		printf("\"done\"\n");
	}
	_exit(0);
}
