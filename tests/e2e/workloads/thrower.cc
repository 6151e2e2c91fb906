// SPDX-License-Identifier: Apache-2.0
//
// An extension in C++ that throws: through frames of Python, through the release of the GIL, and
// from Python's exceptions to C++'s and back. Loaded by ctypes, of which it needs no header of
// CPython's (all that is declared here is in the limited API, or has been the same since 3.2).

extern "C" {
struct PyObject;
struct PyThreadState;
struct PyInterpreterState;
PyObject *PyObject_CallObject(PyObject *callable, PyObject *args);
PyThreadState *PyEval_SaveThread(void);
void PyEval_RestoreThread(PyThreadState *state);
PyInterpreterState *PyInterpreterState_Head(void);
PyThreadState *PyThreadState_New(PyInterpreterState *interpreter);
PyThreadState *PyThreadState_Swap(PyThreadState *state);
PyObject *PyErr_Occurred(void);
void PyErr_Clear(void);
void Py_DecRef(PyObject *object);
}

namespace
{
struct Thrown {
	long value;
};

// Without the GIL for as long as it lives: an exception that passes takes it again.
class Released
{
	PyThreadState *state = PyEval_SaveThread();

      public:
	~Released()
	{
		PyEval_RestoreThread(state);
	}
};

long released(long value)
{
	Released r;

	if (value % 2)
		throw Thrown{value};
	return value;
}
} // namespace

extern "C" void throw_it(long value)
{
	released(value | 1);
}

// Calls a function of Python that calls throw_it(): the frames between are left without a word to
// the interpreter, so they run under a thread state that nobody uses again.
extern "C" long leap(PyObject *callable, long value)
{
	PyThreadState *own = PyThreadState_Swap(PyThreadState_New(PyInterpreterState_Head()));

	try {
		PyObject_CallObject(callable, nullptr);
		value = -1;
	} catch (const Thrown &e) {
		value += e.value;
	}
	PyThreadState_Swap(own);
	return value;
}

// A function of Python raises, which becomes an exception of C++, thrown while the GIL is released.
extern "C" long round(PyObject *callable, long value)
{
	for (long i = 0; i < 5; i++) {
		try {
			PyObject *result = PyObject_CallObject(callable, nullptr);

			if (!result)
				throw Thrown{value + i};
			Py_DecRef(result);
		} catch (const Thrown &e) {
			value += PyErr_Occurred() ? e.value : -1000;
			PyErr_Clear();
		}
		try {
			value += released(value);
		} catch (const Thrown &e) {
			value += 3 * e.value;
		}
	}
	return value;
}
