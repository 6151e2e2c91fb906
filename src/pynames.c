// SPDX-License-Identifier: Apache-2.0
#include "pynames.h"

#include "pyobjects.h"

#define INTERPS_MAX 1024      /* longer lists are taken for damaged ones */
#define SHARED_MAX  30        /* SHARED_KEYS_MAX_SIZE (3.11): attributes that are kept as values */
#define OFFSET_MAX  (1 << 20) /* of something in an instance */
#define PARSE_TRIES 3

struct found {
	struct gt_pyname name;
	uint32_t interp; /* the main one is the last */
};

struct walk {
	struct gt_pyobjects o;
	struct gt_pykey threading, active, name, id;
	struct class
	{
		uint64_t type; /* the last thread's; 0: none yet */
		uint64_t flags, dict, size;
		uint8_t dummy;
		struct gt_pytable keys; /* of the values of instances without a dict */
		/* Keys of values, and where among these the two are; 0: not looked for yet. */
		uint64_t shared, name, id;
	} class;
	uint32_t interp;
	struct found *found;
	size_t n, cap;
};

/* ---- the attributes of a thread ---- */

static int read_class(struct walk *w, struct class *c)
{
	struct gt_pyobjects *o = &w->o;
	uint64_t name, keys;
	int r = gt_pyobjects_word(o, gt_pytype_flags(o, c->type), &c->flags);

	if (!r && !(c->flags & GT_PYTYPE_HEAP))
		r = gt_pyobjects_odd(o, "a thread is of a class that is not written in Python");
	if (!r)
		r = gt_pyobjects_word(o, gt_pytype_size(o, c->type), &c->size);
	if (!r)
		r = gt_pyobjects_word(o, gt_pytype_dictoffset(o, c->type), &c->dict);
	if (!r)
		r = gt_pyobjects_word(o, gt_pytype_name(o, c->type), &name);
	if (!r)
		r = gt_pyobjects_string_is(o, name, "_DummyThread");
	if (r < 0)
		return r;
	c->dummy = r != 0;
	if (!(c->flags & GT_PYTYPE_MANAGED_DICT) || !o->l.cached_keys)
		return 0;
	r = gt_pyobjects_word(o, c->type + o->l.cached_keys, &keys);
	return r || !keys ? r : gt_pyobjects_keys(o, keys, &c->keys);
}

/* Values without a dict. */
static int use_values(struct walk *w, uint64_t values, struct gt_pytable *out)
{
	if (!w->class.keys.entries || w->class.keys.n > SHARED_MAX)
		return gt_pyobjects_odd(&w->o, "a class has no keys for its instances");
	*out = w->class.keys;
	out->values = values;
	return 0;
}

static int get_inline_values(struct walk *w, uint64_t obj, struct gt_pytable *out)
{
	const uint64_t values = obj + w->class.size;
	uint8_t head[4]; /* capacity, size, embedded, valid */
	int r;

	if (!(w->class.flags & GT_PYTYPE_INLINE_VALUES) || w->class.size > OFFSET_MAX)
		return gt_pyobjects_odd(&w->o, "a thread has no attributes");
	r = gt_pyobjects_bytes(&w->o, values, head, sizeof(head));
	if (r)
		return r;
	if (head[0] > SHARED_MAX || head[1] > head[0] || head[2] != 1 || head[3] != 1)
		return gt_pyobjects_odd(&w->o,
					"a thread's attributes are in no form that is known");
	r = use_values(w, values + gt_pyobjects_values_head(&w->o), out);
	if (!r && out->n > head[0])
		out->n = head[0];
	return r;
}

/* The class is w->class. */
static int get_attributes(struct walk *w, uint64_t obj, struct gt_pytable *out)
{
	const struct gt_pynames_layout *l = &w->o.l;
	const uint64_t managed = obj - l->managed;
	uint64_t word, values = 0;
	int r;

	if (!(w->class.flags & GT_PYTYPE_MANAGED_DICT) || !l->managed) {
		if (!w->class.dict || w->class.dict > OFFSET_MAX)
			return gt_pyobjects_odd(&w->o, "a thread has no attributes");
		r = gt_pyobjects_word(&w->o, obj + w->class.dict, &word);
		return r ? r : gt_pyobjects_dict(&w->o, word, out);
	}
	r = gt_pyobjects_word(&w->o, managed, &word);
	if (!r && l->attributes == GT_ATTRS_BOTH)
		r = gt_pyobjects_word(&w->o, managed - 8, &values);
	if (r)
		return r;
	if (l->attributes == GT_ATTRS_TAGGED && word & 1)
		values = word + 1;
	if (values)
		return use_values(w, values, out);
	if (!word && l->attributes == GT_ATTRS_INLINE)
		return get_inline_values(w, obj, out);
	return gt_pyobjects_dict(&w->o, word, out);
}

/* Where name and id stand. Instances that share keys have them at the same places. */
static int find_both(struct walk *w, const struct gt_pytable *t, uint64_t *name, uint64_t *id)
{
	int r;

	if (t->values && t->entries == w->class.shared) {
		*name = t->values + w->class.name;
		*id = t->values + w->class.id;
		return 0;
	}
	r = gt_pytable_find(&w->o, t, &w->name, name);
	if (r > 0)
		r = gt_pytable_find(&w->o, t, &w->id, id);
	if (r <= 0)
		return r ? r : gt_pyobjects_odd(&w->o, "a thread has no name or no id");
	if (t->values) {
		w->class.shared = t->entries;
		w->class.name = *name - t->values;
		w->class.id = *id - t->values;
	}
	return 0;
}

/* *name is the str. The class is w->class. */
static int look_at(struct walk *w, uint64_t obj, uint64_t *name, struct gt_pyname *out)
{
	struct gt_pytable attributes = {0};
	uint64_t name_at = 0, id_at = 0, id = 0;
	int r = get_attributes(w, obj, &attributes);

	if (!r)
		r = find_both(w, &attributes, &name_at, &id_at);
	if (!r)
		r = gt_pyobjects_word(&w->o, name_at, name);
	if (!r)
		r = gt_pyobjects_word(&w->o, id_at, &id);
	if (!r)
		r = gt_pyobjects_str(&w->o, *name, out->name, sizeof(out->name));
	return r ? r : gt_pyobjects_int(&w->o, id, GT_PYMEM_PID_MAX, &out->ns_tid);
}

/*
 * A thread that is renamed or ends meanwhile frees what was just found, and when it is read another
 * str may lie there, which is nobody's name. So all must be the same twice: the text, too, since
 * what was freed last is used anew first.
 */
static int get_thread(struct walk *w, uint64_t obj, struct gt_pyname *out)
{
	uint64_t type, str = 0, again = 0;
	struct gt_pyname first;
	int r = gt_pyobjects_word(&w->o, obj + w->o.l.head - 8, &type);

	if (!r && type != w->class.type) {
		struct class c = {.type = type};

		r = read_class(w, &c);
		if (!r)
			w->class = c;
	}
	if (!r)
		r = look_at(w, obj, &str, &first);
	if (!r)
		r = look_at(w, obj, &again, out);
	if (r)
		return r;
	if (str != again || first.ns_tid != out->ns_tid || strcmp(first.name, out->name))
		return gt_pyobjects_odd(&w->o, "a thread changes too fast");
	out->dummy = w->class.dummy;
	return 0;
}

/* ---- the way to the threads ---- */

static int add(struct walk *w, const struct gt_pyname *name)
{
	if (w->n == w->cap) {
		size_t cap = w->cap ? w->cap * 2 : 64;
		void *grown = reallocarray(w->found, cap, sizeof(*w->found));

		if (!grown)
			return -ENOMEM;
		w->found = grown;
		w->cap = cap;
	}
	w->found[w->n++] = (struct found){.name = *name, .interp = w->interp};
	return 0;
}

/* One odd thing of several does not hide the others, but is not forgotten. */
static int forgive(int r, int *worst)
{
	if (r != -EPROTO)
		return r;
	*worst = r;
	return 0;
}

/* The thread of an entry of threading._active, if there is one. */
static int add_thread(struct walk *w, uint64_t at)
{
	struct gt_pyname name = {0};
	uint64_t obj, again = 0;
	int r = gt_pyobjects_word(&w->o, at, &obj);

	if (r || !obj)
		return r;
	r = get_thread(w, obj, &name);
	if (!r)
		r = gt_pyobjects_word(&w->o, at, &again);
	if (r || obj != again || !name.name[0])
		return r;
	return add(w, &name);
}

static int add_threads(struct walk *w, uint64_t active)
{
	const size_t before = w->n;
	struct gt_pytable t, again;
	int r = gt_pyobjects_dict(&w->o, active, &t), worst = 0;

	if (!r && t.values)
		return gt_pyobjects_odd(&w->o, "threading._active is in no form that is known");
	for (uint32_t i = 0; !r && i < t.n && w->n < GT_PYNAMES_MAX; i++)
		r = forgive(add_thread(w, gt_pytable_value(&t, i)), &worst);
	if (!r)
		r = gt_pyobjects_dict(&w->o, active, &again);
	if (!r && t.entries != again.entries) {
		w->n = before;
		return gt_pyobjects_odd(&w->o, "threading._active changes too fast");
	}
	return r ? r : worst;
}

static int add_interp(struct walk *w, uint64_t interp)
{
	struct gt_pytable modules, threading;
	uint64_t dict, module = 0, active = 0;
	int r = gt_pyobjects_word(&w->o, interp + w->o.l.modules, &dict);

	if (r || !dict) /* it is being made, or taken down */
		return r;
	r = gt_pyobjects_dict(&w->o, dict, &modules);
	if (!r)
		r = gt_pytable_get(&w->o, &modules, &w->threading, &module);
	if (r <= 0) /* nobody has imported it */
		return r;
	r = gt_pyobjects_first(&w->o, module, GT_BUILTIN_MODULE, &dict);
	if (!r)
		r = gt_pyobjects_dict(&w->o, dict, &threading);
	if (!r)
		r = gt_pytable_get(&w->o, &threading, &w->active, &active);
	return r <= 0 ? r : add_threads(w, active); /* 0: it is being imported */
}

static int add_interps(struct walk *w, uint64_t runtime)
{
	uint64_t interp;
	int worst = 0, r = gt_pyobjects_word(&w->o, runtime + w->o.l.interps, &interp);

	for (; !r && interp; w->interp++) {
		if (w->interp == INTERPS_MAX)
			return gt_pyobjects_odd(&w->o, "its list of interpreters does not end");
		r = forgive(add_interp(w, interp), &worst);
		if (!r)
			r = gt_pyobjects_word(&w->o, interp + w->o.l.next, &interp);
	}
	return r ? r : worst;
}

/* By id; the one that is to be kept first. */
static int by_id(const void *a, const void *b)
{
	const struct found *x = a, *y = b;

	if (x->name.ns_tid != y->name.ns_tid)
		return x->name.ns_tid < y->name.ns_tid ? -1 : 1;
	if (x->name.dummy != y->name.dummy)
		return x->name.dummy - y->name.dummy;
	if (x->interp != y->interp)
		return x->interp > y->interp ? -1 : 1;
	return strcmp(x->name.name, y->name.name);
}

static int take(struct walk *w, struct gt_pyname **out, size_t *n)
{
	struct gt_pyname *names = NULL;
	size_t k = 0;

	if (w->n) {
		names = calloc(w->n, sizeof(*names));
		if (!names)
			return -ENOMEM;
		qsort(w->found, w->n, sizeof(*w->found), by_id);
	}
	for (size_t i = 0; i < w->n; i++)
		if (!k || names[k - 1].ns_tid != w->found[i].name.ns_tid)
			names[k++] = w->found[i].name;
	*out = names;
	*n = k;
	return 0;
}

static int get_layout(struct walk *w, uint64_t runtime, unsigned int major, unsigned int minor)
{
	uint8_t head[GT_PYNAMES_HEAD];
	int r, published;

	if (!runtime) {
		w->o.odd = "where its _PyRuntime lies is not known";
		return -ENOTSUP;
	}
	if (runtime & 7 || runtime >= GT_PYMEM_ADDRESS_MAX)
		return gt_pyobjects_odd(&w->o, "the address of its _PyRuntime is wrong");
	r = w->o.read(w->o.ctx, runtime, head, 8);
	published = !r && gt_pyoffsets_there(head);
	if (published)
		r = w->o.read(w->o.ctx, runtime, head, sizeof(head));
	return r ? r : gt_pynames_layout(published ? head : NULL, major, minor, &w->o.l, &w->o.odd);
}

static const char *why_not(const struct walk *w, int r)
{
	if (!r)
		return NULL;
	return r == -EPROTO || r == -ENOTSUP ? w->o.odd : "its memory cannot be read";
}

int gt_pynames_parse(gt_memory_fn *read, void *ctx, uint64_t runtime, unsigned int major,
		     unsigned int minor, struct gt_pyname **out, size_t *n, const char **why)
{
	struct walk w = {
		.o = {.read = read, .ctx = ctx},
		.threading = {.text = "threading"},
		.active = {.text = "_active"},
		.name = {.text = "_name"},
		.id = {.text = "_native_id"},
	};
	int r = get_layout(&w, runtime, major, minor);

	if (!r)
		r = add_interps(&w, runtime);
	if (!r || (r == -EPROTO && w.n))
		r = take(&w, out, n);
	free(w.found);
	*why = why_not(&w, r);
	return r;
}

int gt_pynames_read(const struct gt_proc *p, const struct gt_python *py, struct gt_pyname **out,
		    size_t *n, const char **why)
{
	gt_autofree struct gt_pyname *names = NULL;
	size_t count = 0;
	int r = -EPROTO;

	/* What changes while it is read may stand still at another look. */
	for (int i = 0; i < PARSE_TRIES && r == -EPROTO; i++)
		r = gt_pynames_parse(gt_pymem_read, (void *)p, py->runtime, py->sites->py_major,
				     py->sites->py_minor, &names, &count, why);
	/* What was read may have been another's, which had got the pid or executed there. */
	if (gt_proc_ended(p) || gt_proc_memory_gone(p)) {
		*why = "it has ended";
		return -ESRCH;
	}
	if (r)
		return r;
	*out = gt_steal_ptr(names);
	*n = count;
	return 0;
}
