// SPDX-License-Identifier: Apache-2.0
/*
 * Names of threads against CPython itself: the table against the headers of each version that has
 * them here, and names as real Pythons tell them themselves.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "livepy.h"
#include "log.h"
#include "pynames.h"
#include "pyobjects.h"

#include <sched.h>

#define OLDEST 8
#define NEWEST 15

static struct livepy pythons[LIVEPY_MAX];
static size_t n_pythons;

/* ---- what the headers of real versions say ---- */

/* The numbers of the table, then what they share, then the words that 3.13 and newer publish. */
static const char headers_program[] =
	"#define NDEBUG\n"
	"#include <Python.h>\n"
	"#include <stddef.h>\n"
	"#include <stdio.h>\n"
	"#if PY_VERSION_HEX < 0x03090000\n"
	"#include \"internal/pycore_pystate.h\"\n"
	"#else\n"
	"#include \"internal/pycore_interp.h\"\n"
	"#include \"internal/pycore_runtime.h\"\n"
	"#endif\n"
	"#if PY_VERSION_HEX >= 0x030b0000\n"
	"#include \"internal/pycore_dict.h\"\n"
	"#include \"internal/pycore_object.h\"\n"
	"#define KEYS_HEAD O(struct _dictkeysobject, dk_indices)\n"
	"#else\n"
	"#define KEYS_HEAD 40 /* in no header that is installed */\n"
	"#endif\n"
	"#if PY_VERSION_HEX < 0x030c0000\n"
	"#define MODULES modules\n"
	"#define LONG_SIZE offsetof(PyVarObject, ob_size)\n"
	"#define LONG_DIGIT offsetof(struct _longobject, ob_digit)\n"
	"#else\n"
	"#define MODULES imports.modules\n"
	"#define LONG_SIZE offsetof(PyLongObject, long_value.lv_tag)\n"
	"#define LONG_DIGIT offsetof(PyLongObject, long_value.ob_digit)\n"
	"#endif\n"
	"#if PY_VERSION_HEX < 0x030b0000\n"
	"#define MANAGED_DICT_OFFSET 0\n"
	"#define CACHED 0\n"
	"#elif PY_VERSION_HEX < 0x030c0000 || PY_VERSION_HEX >= 0x030d0000\n"
	"#define CACHED offsetof(PyHeapTypeObject, ht_cached_keys)\n"
	"#else\n"
	"#define MANAGED_DICT_OFFSET ((int)((char *)_PyObject_DictOrValuesPointer((void *)4096) - "
	"(char *)4096))\n"
	"#define CACHED offsetof(PyHeapTypeObject, ht_cached_keys)\n"
	"#endif\n"
	"#define O(type, field) ((int)offsetof(type, field))\n"
	"static union { PyASCIIObject s; struct { char before[offsetof(PyASCIIObject, state)];\n"
	"	unsigned state; } w; } u;\n"
	"int main(void)\n"
	"{\n"
	"	int shift = 0;\n"
	"	u.s.state.kind = 1;\n"
	"	while (!(u.w.state >> shift & 1))\n"
	"		shift++;\n"
	"	printf(\"%d %d %d %d %d %d %d %d %d %d\\n\", O(_PyRuntimeState, "
	"interpreters.head),\n"
	"	       O(PyInterpreterState, next), O(PyInterpreterState, MODULES),\n"
	"	       (int)sizeof(PyObject), KEYS_HEAD, (int)CACHED,\n"
	"	       (int)sizeof(PyASCIIObject), (int)sizeof(PyCompactUnicodeObject), shift,\n"
	"	       -(int)MANAGED_DICT_OFFSET);\n"
	"	u.s.state.kind = 0;\n"
	"	u.s.state.compact = 1;\n"
	"	printf(\"%d\\n\", u.w.state >> shift);\n"
	"	u.s.state.compact = 0;\n"
	"	u.s.state.ascii = 1;\n"
	"	printf(\"%d\\n\", u.w.state >> shift);\n"
	"	printf(\"%d %d %d %d %d %d %d %d %d %d %d %d\\n\", O(PyObject, ob_type),\n"
	"	       O(PyTypeObject, tp_name), O(PyTypeObject, tp_basicsize),\n"
	"	       O(PyTypeObject, tp_flags), O(PyTypeObject, tp_dictoffset),\n"
	"	       O(PyDictObject, ma_keys), O(PyDictObject, ma_values), (int)LONG_SIZE,\n"
	"	       (int)LONG_DIGIT, O(PyASCIIObject, length), O(PyASCIIObject, state),\n"
	"	       PYLONG_BITS_IN_DIGIT);\n"
	"#if PY_VERSION_HEX >= 0x030b0000\n"
	"	printf(\"%d %d %d %d %d\\n\", O(struct _dictkeysobject, dk_log2_size),\n"
	"	       O(struct _dictkeysobject, dk_log2_index_bytes),\n"
	"	       O(struct _dictkeysobject, dk_kind), O(struct _dictkeysobject, "
	"dk_nentries),\n"
	"	       SHARED_KEYS_MAX_SIZE);\n"
	"#endif\n"
	"#if PY_VERSION_HEX >= 0x030d0000\n"
	"	printf(\"%d %d %d %d %d\\n\", O(struct _dictvalues, capacity),\n"
	"	       O(struct _dictvalues, embedded), O(struct _dictvalues, valid),\n"
	"	       O(struct _dictvalues, values), (int)Py_TPFLAGS_INLINE_VALUES);\n"
	"	static _Py_DebugOffsets d;\n"
	"	struct _gil_runtime_state *gil = 0;\n"
	"#ifdef Py_GIL_DISABLED\n"
	"	d.free_threaded = 1;\n"
	"#endif\n"
	"	d.version = PY_VERSION_HEX;\n"
	"	d.runtime_state.size = sizeof(_PyRuntimeState);\n"
	"	d.runtime_state.interpreters_head = O(_PyRuntimeState, interpreters.head);\n"
	"	d.interpreter_state.size = sizeof(PyInterpreterState);\n"
	"	d.interpreter_state.next = O(PyInterpreterState, next);\n"
	"	d.interpreter_state.imports_modules = O(PyInterpreterState, imports.modules);\n"
	"	d.interpreter_state.gil_runtime_state_locked = (size_t)&gil->locked;\n"
	"	d.interpreter_state.gil_runtime_state_holder = (size_t)&gil->last_holder;\n"
	"	d.thread_state.size = sizeof(PyThreadState);\n"
	"	d.thread_state.next = O(PyThreadState, next);\n"
	"	d.thread_state.interp = O(PyThreadState, interp);\n"
	"	d.thread_state.thread_id = O(PyThreadState, thread_id);\n"
	"	d.thread_state.native_thread_id = O(PyThreadState, native_thread_id);\n"
	"	d.pyobject.size = sizeof(PyObject);\n"
	"	d.pyobject.ob_type = O(PyObject, ob_type);\n"
	"	d.type_object.tp_name = O(PyTypeObject, tp_name);\n"
	"	d.type_object.tp_flags = O(PyTypeObject, tp_flags);\n"
	"	d.dict_object.ma_keys = O(PyDictObject, ma_keys);\n"
	"	d.dict_object.ma_values = O(PyDictObject, ma_values);\n"
	"	d.long_object.lv_tag = LONG_SIZE;\n"
	"	d.long_object.ob_digit = LONG_DIGIT;\n"
	"	d.unicode_object.state = O(PyASCIIObject, state);\n"
	"	d.unicode_object.length = O(PyASCIIObject, length);\n"
	"	d.unicode_object.asciiobject_size = sizeof(PyASCIIObject);\n"
	"	for (size_t i = 1; i < sizeof(d) / 8; i++)\n"
	"		printf(\"%llu\\n\", (unsigned long long)((uint64_t *)&d)[i]);\n"
	"#endif\n"
	"	return 0;\n"
	"}\n";

static void read_ints(FILE *out, int *v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		assert_int_equal(fscanf(out, "%d", &v[i]), 1);
}

static void compare_shared(FILE *out, const struct gt_pynames_layout *l)
{
	const struct gt_pyobjects o = {.l = *l};
	const int head = (int)l->head;
	int v[14], keys[5], values[5];

	read_ints(out, v, 14);
	assert_int_equal(v[0], 1 << 3); /* compact, ascii: bits beside kind */
	assert_int_equal(v[1], 1 << 4);
	assert_int_equal(v[2], head - 8);
	assert_int_equal(v[3], gt_pytype_name(&o, 0));
	assert_int_equal(v[4], gt_pytype_size(&o, 0));
	assert_int_equal(v[5], gt_pytype_flags(&o, 0));
	assert_int_equal(v[6], gt_pytype_dictoffset(&o, 0));
	assert_int_equal(v[7], head + 16);
	assert_int_equal(v[8], head + 24);
	assert_int_equal(v[9], head);
	assert_int_equal(v[10], head + 8);
	assert_int_equal(v[11], head);
	assert_int_equal(v[12], head + 16);
	assert_int_equal(v[13], 30);
	if (l->minor >= 11) {
		read_ints(out, keys, 5);
		assert_memory_equal(keys, ((int[]){8, 9, 10, 24, 30}), sizeof(keys));
	}
	if (l->minor >= 13) {
		read_ints(out, values, 5);
		assert_memory_equal(values, ((int[]){0, 2, 3, 8, GT_PYTYPE_INLINE_VALUES}),
				    sizeof(values));
		assert_int_equal(gt_pyobjects_values_head(&o), 8);
	}
}

/* The words come last, but decide on the row: kept until then. */
static void compare(const struct livepy *py, FILE *out)
{
	uint8_t head[GT_PYNAMES_HEAD + 1024] = "xdebugpy";
	const unsigned int minor = (unsigned int)py->minor;
	struct gt_pynames_layout l;
	unsigned long long word;
	const char *why = NULL;
	char rest[8192];
	size_t len;
	FILE *again;
	int v[10], skip_words;

	read_ints(out, v, 10);
	len = fread(rest, 1, sizeof(rest) - 1, out);
	rest[len] = 0;
	again = fmemopen(rest, len, "r");
	assert_non_null(again);
	for (skip_words = 14 + (minor >= 11 ? 5 : 0) + (minor >= 13 ? 5 : 0); skip_words > 0;
	     skip_words--)
		assert_int_equal(fscanf(again, "%llu", &word), 1);
	for (size_t i = 8; i < sizeof(head) && fscanf(again, "%llu", &word) == 1; i += 8)
		gt_put_le64(head + i, word);
	if (gt_pynames_layout(minor < 13 ? NULL : head, 3, minor, &l, &why))
		fail_msg("%s: %s", py->path, why);
	assert_int_equal(l.interps, v[0]);
	assert_int_equal(l.next, v[1]);
	assert_int_equal(l.modules, v[2]);
	assert_int_equal(l.head, v[3]);
	assert_int_equal(l.keys_head, v[4]);
	assert_int_equal(l.cached_keys, v[5]);
	assert_int_equal(l.ascii, v[6]);
	assert_int_equal(l.compact, v[7]);
	assert_int_equal(l.kind_shift, v[8]);
	assert_int_equal(l.managed, v[9]);
	rewind(again);
	compare_shared(again, &l);
	fclose(again);
}

static void as_the_headers_say(void **state)
{
	static const char *const options[] = {"-DAS_BUILT", "-DPy_GIL_DISABLED=1"};
	int compared = 0, pid;
	FILE *out = NULL;

	(void)state;
	if (!fix_has(getenv("CC") ? getenv("CC") : "cc")) {
		print_message("SKIPPED: no C compiler\n");
		skip();
	}
	for (size_t i = 0; i < n_pythons; i++) {
		const struct livepy *py = &pythons[i];

		if (!livepy_has_headers(py) || py->minor > NEWEST || py->minor < OLDEST) {
			print_message("SKIPPED: %s %s has no internal headers, or no row\n",
				      py->version, py->path);
			continue;
		}
		for (int k = 0; k < (py->minor < 13 ? 1 : 2); k++) {
			pid = livepy_compile(py, headers_program, options[k], &out);
			if (pid < 0 && k) {
				print_message("SKIPPED: %s: not as a free-threaded build\n",
					      py->path);
				continue;
			}
			if (pid < 0)
				fail_msg("%s: its headers do not compile", py->path);
			compare(py, out);
			assert_int_equal(fix_done(out, pid), 0);
			print_message("%s %s: headers%s\n", py->version, py->path,
				      k ? ", free-threaded" : "");
			compared++;
		}
	}
	if (!compared)
		skip();
}

/* ---- live ---- */

/*
 * At each byte of its input it prints what it knows of its threads: how many, then for each its id,
 * is it a dummy, and its name in hexadecimal, as giltrace is to tell it. Before that it does what
 * its argument says.
 */
static const char script[] =
	"import _thread, os, sys, threading\n"
	"def cut(name):\n"
	"    name = ''.join('\\ufffd' if c == '\\0' or '\\ud800' <= c < '\\ue000' else c for c in "
	"name)\n"
	"    return name.encode()[:63].decode('utf-8', 'ignore').encode().hex()\n"
	"def tell():\n"
	"    known = [t for t in threading.enumerate() if t.native_id]\n"
	"    lines = ['%d %d %s' % (t.native_id, isinstance(t, threading._DummyThread), "
	"cut(t.name))\n"
	"             for t in sorted(known, key=lambda t: t.native_id)]\n"
	"    os.write(1, '\\n'.join([str(len(lines))] + lines + ['']).encode())\n"
	"end = threading.Event()\n"
	"def start(name=None, cls=threading.Thread, **more):\n"
	"    t = cls(target=end.wait, name=name, **more)\n"
	"    t.start()\n"
	"    return t\n"
	"class Mine(threading.Thread):\n"
	"    def __init__(self, **more):\n"
	"        self.before = 1\n"
	"        super().__init__(**more)\n"
	"        self._something = self.other = 2\n"
	"class Slots(threading.Thread):\n"
	"    __slots__ = ('a', 'b')\n"
	"class Many(threading.Thread):\n"
	"    def run(self):\n"
	"        for i in range(300):\n"
	"            setattr(self, 'a%d' % i, i)\n"
	"        started.release()\n"
	"        end.wait()\n"
	"class Both(threading.Thread, OSError):\n"
	"    pass\n"
	"class _DummyThread(Exception):\n"
	"    pass\n"
	"started = threading.Semaphore(0)\n"
	"def foreign():\n"
	"    threading.current_thread()\n"
	"    started.release()\n"
	"    end.wait()\n"
	"renamed = start('before')\n"
	"threads = [start(n) for n in ('pin_memory', 'F\\xe4den', '\\u7ebf\\u7a0b-1', '\\U0001f9f5 "
	"w',\n"
	"           'x' * 100, '\\u7ebf' * 40, 'a\\0b', 'lone \\ud800', 'y' * 62 + '\\xe9', ' ', "
	"None,\n"
	"           'z' * 63, 'z' * 64, 'line\\nfeed', 'a', 'ab', 'abc', '\\xff' * 31 + 'q')]\n"
	"threads += [start(daemon=True), start('mine', Mine), start('slots', Slots),\n"
	"            start('many', Many)]\n"
	"_thread.start_new_thread(foreign, ())\n"
	"started.acquire(); started.acquire()\n"
	"if sys.argv[1] == 'start':\n"
	"    for t in threads[::2]:\n"
	"        vars(t)\n"
	"if sys.argv[1] == 'forget':\n"
	"    for t in threads[::3]:\n"
	"        d = t.__dict__\n"
	"        d.pop('_daemonic', None); d['new'] = 1; d.update(zip('abcdefghijklmnop', 'x' * "
	"16))\n"
	"if sys.argv[1] == 'many':\n"
	"    threads += [start('w%d' % i) for i in range(300)]\n"
	"os.write(1, b'ready\\n')\n"
	"while os.read(0, 1):\n"
	"    tell()\n"
	"    os.read(0, 1)\n"
	"    renamed.name += '+\\u20ac'\n"
	"    threads[0].__dict__['more'] = 1\n"
	"    threads.append(start('later'))\n"
	"    tell()\n";

struct told {
	unsigned int ns_tid;
	int dummy;
	char name[GT_PYNAME_LEN];
};

static int hex(char c)
{
	return c <= '9' ? c - '0' : c - 'a' + 10;
}

static size_t read_told(struct livepy_run *run, struct told *told, size_t max)
{
	char line[512], text[256];
	size_t n, i, k;

	livepy_line(run, line, sizeof(line));
	n = strtoul(line, NULL, 10);
	assert_in_range(n, 1, max);
	for (i = 0; i < n; i++) {
		livepy_line(run, line, sizeof(line));
		assert_int_equal(sscanf(line, "%u %d %255s", &told[i].ns_tid, &told[i].dummy, text),
				 3);
		for (k = 0; text[2 * k]; k++)
			told[i].name[k] = (char)(hex(text[2 * k]) << 4 | hex(text[2 * k + 1]));
		told[i].name[k] = 0;
	}
	return n;
}

static struct gt_python python_of(const struct livepy *py, const struct livepy_run *run,
				  struct gt_sites *sites)
{
	memset(sites, 0, sizeof(*sites));
	sites->py_major = 3;
	sites->py_minor = (uint8_t)py->minor;
	return (struct gt_python){.sites = sites, .runtime = livepy_runtime(&run->p)};
}

static size_t read_names(const struct livepy *py, const struct livepy_run *run,
			 struct gt_pyname **names)
{
	struct gt_sites sites;
	struct gt_python python = python_of(py, run, &sites);
	const char *why = "";
	size_t n = 0;

	if (gt_pynames_read(&run->p, &python, names, &n, &why))
		fail_msg("%s %s: %s", py->version, py->path, why);
	assert_null(why);
	return n;
}

static void compare_told(const struct livepy *py, struct livepy_run *run)
{
	static struct told told[512];
	struct gt_pyname *names = NULL;
	size_t expected = read_told(run, told, GT_ARRAY_SIZE(told));
	size_t n = read_names(py, run, &names);

	for (size_t i = 0; i < n && i < expected; i++) {
		assert_int_equal(names[i].ns_tid, told[i].ns_tid);
		assert_int_equal(names[i].dummy, told[i].dummy);
		assert_string_equal(names[i].name, told[i].name);
	}
	assert_int_equal(n, expected);
	free(names);
}

static void as_it_says_itself(const struct livepy *py, const char *what, long flags)
{
	struct livepy_run run = livepy_start(py, script, what, NULL, flags);

	if (run.pid < 0) {
		print_message("SKIPPED: no PID namespace can be made\n");
		return;
	}
	livepy_ready(&run);
	livepy_say(&run);
	compare_told(py, &run);
	livepy_say(&run);
	compare_told(py, &run);
	print_message("%s %s: live: %s%s\n", py->version, py->path, what,
		      flags ? ", in a PID namespace" : "");
	livepy_end(&run);
}

static void for_all(void (*f)(const struct livepy *py))
{
	int done = 0;

	for (size_t i = 0; i < n_pythons; i++)
		if (pythons[i].minor >= OLDEST && pythons[i].minor <= NEWEST) {
			f(&pythons[i]);
			done++;
		}
	if (!done)
		skip();
}

static void told_by(const struct livepy *py)
{
	as_it_says_itself(py, "nothing", 0);
	as_it_says_itself(py, "start", 0);
	as_it_says_itself(py, "forget", 0);
	as_it_says_itself(py, "nothing", CLONE_NEWPID);
}

static void names_are_those_of_python(void **state)
{
	(void)state;
	for_all(told_by);
}

/* What it costs: 24 threads, and 324. */
static void told_by_many(const struct livepy *py)
{
	const int rounds = 20;

	for (int many = 0; many < 2; many++) {
		struct livepy_run run =
			livepy_start(py, script, many ? "many" : "nothing", NULL, 0);
		uint64_t began, best = UINT64_MAX;
		size_t n = 0;

		livepy_ready(&run);
		for (int i = 0; i < rounds; i++) {
			struct gt_pyname *names = NULL;
			uint64_t took;

			began = livepy_now();
			n = read_names(py, &run, &names);
			took = livepy_now() - began;
			if (took < best)
				best = took;
			free(names);
		}
		print_message("%s: %zu threads in %.3f ms\n", py->version, n, (double)best / 1e6);
		livepy_say(&run);
		compare_told(py, &run);
		livepy_end(&run);
	}
}

static void many_threads(void **state)
{
	(void)state;
	for_all(told_by_many);
}

/*
 * Threads that come and go, and are renamed all the time, each to names that hold its id; so every
 * name that is read can be checked. Class, dict and length vary, so that what is freed is used
 * anew, but a number makes every text another.
 */
static const char restless[] =
	"import itertools, os, sys, threading, time\n"
	"sys.setswitchinterval(1e-5)\n"
	"count = itertools.count(1000000)\n"
	"class T(threading.Thread):\n"
	"    def run(self):\n"
	"        for k in range(60):\n"
	"            tail = '%d%s' % (next(count), 'x\\xe9\\u7ebf'[k % 3] * (k % 7 * 9))\n"
	"            self.name = 't%d:%s' % (self.native_id, tail)\n"
	"            if k % 5:\n"
	"                time.sleep(1e-4)\n"
	"            if k == 20:\n"
	"                vars(self)\n"
	"            if k == 40:\n"
	"                daemonic = self.__dict__.pop('_daemonic')\n"
	"                setattr(self, 'a%d' % self.native_id, 1)\n"
	"                self._daemonic = daemonic\n"
	"class U(T):\n"
	"    def __init__(self):\n"
	"        self.first = 1\n"
	"        super().__init__()\n"
	"os.write(1, b'ready\\n')\n"
	"while True:\n"
	"    ts = [(T, U)[i % 2]() for i in range(12)]\n"
	"    for t in ts:\n"
	"        t.start()\n"
	"    for t in ts:\n"
	"        t.join()\n";

static void never_wrong(const struct livepy *py)
{
	struct livepy_run run = livepy_start(py, restless, "", NULL, 0);
	unsigned int looks = 0, failed = 0, seen = 0;
	struct gt_sites sites;
	struct gt_python python;
	uint64_t end;

	livepy_ready(&run);
	python = python_of(py, &run, &sites);
	end = livepy_now() + 500000000;
	for (; livepy_now() < end || (seen < 20 && livepy_now() < end + 5000000000); looks++) {
		struct gt_pyname *names = NULL;
		const char *why = NULL;
		size_t n = 0;
		int r = gt_pynames_read(&run.p, &python, &names, &n, &why);

		assert_true(r == 0 || (r == -EPROTO && why));
		failed += r != 0;
		for (size_t i = 0; i < n; i++) {
			unsigned int id;

			if (!strcmp(names[i].name, "MainThread")) {
				assert_int_equal(names[i].ns_tid, run.pid);
			} else if (sscanf(names[i].name, "t%u:", &id) == 1) {
				assert_int_equal(names[i].ns_tid, id);
				seen++;
			} else if (strncmp(names[i].name, "Thread-", 7)) {
				fail_msg("%s: a thread is called '%s'", py->version, names[i].name);
			}
		}
		free(names);
	}
	print_message("%s: %u looks, %u failed, %u names\n", py->version, looks, failed, seen);
	assert_true(seen >= 20);
	livepy_end(&run);
}

static void while_all_changes(void **state)
{
	(void)state;
	for_all(never_wrong);
}

/* A thread of another interpreter, and one that runs in both: there it is a "MainThread", too. */
static const char interpreters[] =
	"import os, sys, threading\n"
	"try:\n"
	"    import _interpreters as interpreters\n"
	"except ImportError:\n"
	"    import _xxsubinterpreters as interpreters\n"
	"inner = '''\n"
	"import os, threading\n"
	"t = threading.Thread(target=os.read, args=(0, 1), name='inner')\n"
	"t.start()\n"
	"os.write(1, ('%d %d\\\\n' % (threading.get_native_id(), t.native_id)).encode())\n"
	"t.join()\n"
	"'''\n"
	"os.write(1, b'ready\\n')\n"
	"def create():\n"
	"    for args in ({'isolated': False}, {'config': 'legacy'}, {}):\n"
	"        try:\n"
	"            return interpreters.create(**args)\n"
	"        except TypeError:\n"
	"            pass\n"
	"t = threading.Thread(target=interpreters.run_string, args=(create(), inner),\n"
	"                     name='outer')\n"
	"t.start()\n"
	"t.join()\n";

static const char *name_of(const struct gt_pyname *names, size_t n, unsigned int ns_tid)
{
	for (size_t i = 0; i < n; i++)
		if (names[i].ns_tid == ns_tid)
			return names[i].name;
	return "";
}

static void two_interpreters(const struct livepy *py)
{
	struct livepy_run run;
	struct gt_pyname *names = NULL;
	unsigned int outer, inner;
	char line[64];
	size_t n;

	run = livepy_start(py, interpreters, "", NULL, 0);
	livepy_ready(&run);
	livepy_line(&run, line, sizeof(line));
	assert_int_equal(sscanf(line, "%u %u", &outer, &inner), 2);
	n = read_names(py, &run, &names);
	assert_int_equal(n, 3);
	assert_string_equal(name_of(names, n, (unsigned int)run.pid), "MainThread");
	assert_string_equal(name_of(names, n, outer), "outer");
	assert_string_equal(name_of(names, n, inner), "inner");
	free(names);
	livepy_end(&run);
}

static void several_interpreters(void **state)
{
	(void)state;
	for_all(two_interpreters);
}

/* Nobody has imported it; and it has ended. */
static void without_threading(const struct livepy *py)
{
	struct livepy_run run =
		livepy_start(py, "import os; os.write(1, b'ready\\n'); os.read(0, 1)", "", NULL, 0);
	struct gt_sites sites;
	struct gt_python python;
	struct gt_pyname *names = NULL;
	const char *why = NULL;
	size_t n = 7;

	livepy_ready(&run);
	python = python_of(py, &run, &sites);
	assert_int_equal(gt_pynames_read(&run.p, &python, &names, &n, &why), 0);
	assert_int_equal(n, 0);
	assert_null(names);
	kill(run.pid, SIGKILL);
	livepy_until(gt_proc_ended(&run.p));
	assert_int_equal(gt_pynames_read(&run.p, &python, &names, &n, &why), -ESRCH);
	assert_non_null(why);
	livepy_end(&run);
}

static void nothing_to_read(void **state)
{
	(void)state;
	for_all(without_threading);
}

static int setup(void **state)
{
	(void)state;
	gt_log_setup("test", GT_LOG_ERROR);
	n_pythons = livepy_find(pythons);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(as_the_headers_say),   cmocka_unit_test(names_are_those_of_python),
		cmocka_unit_test(many_threads),         cmocka_unit_test(while_all_changes),
		cmocka_unit_test(several_interpreters), cmocka_unit_test(nothing_to_read),
	};

	return cmocka_run_group_tests_name("pynames_live", tests, setup, fix_teardown);
}
