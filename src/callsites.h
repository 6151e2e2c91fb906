/* SPDX-License-Identifier: Apache-2.0 */
/*
 * callsites.h - where does a file call certain imported functions, in which of its functions do
 * these calls lie, and what is known of their first argument? No symbols, no section headers:
 * slots of the GOT from the relocations, PLT stubs to them, calls and tail jumps to either,
 * function ranges from .eh_frame_hdr, cold parts joined to the function that jumps into them.
 *
 * The file may be hostile: all work is bounded. A struct gt_callsites is owned by the caller and
 * used by one thread; the image must outlive it.
 */
#ifndef GT_CALLSITES_H
#define GT_CALLSITES_H

#include "image.h"

#define GT_VALUE_VIA 6

/*
 * A register's value as far as the code before tells. The code is looked at backward in the order
 * of addresses, which is not the order of execution where it jumps; so a value serves only to be
 * compared with another of the same function, for an exact distance.
 */
struct gt_value {
	enum { GT_VALUE_UNKNOWN, GT_VALUE_ABS, GT_VALUE_REL, GT_VALUE_SLOT } kind;
	uint64_t v; /* ABS: an address; REL: distance from something; SLOT: *v */
	/* On the way there: it is this far from what these registers held. */
	struct {
		uint64_t off;
		uint8_t reg;
	} via[GT_VALUE_VIA];
	uint8_t nvia;
};

/* Is b - a == d by anything that is known of the two, which are of one function? */
int gt_value_distance_is(const struct gt_value *a, const struct gt_value *b, uint64_t d);

struct gt_call {
	uint64_t pc;
	uint64_t owner; /* start of the function that it lies in */
	struct gt_value arg;
	uint8_t api;     /* index in the list of names */
	uint8_t tail;    /* a jump */
	uint8_t got;     /* through a slot of the GOT or a register, not a direct call */
	uint8_t wrapped; /* of a function that passes its first argument on: gt_callsites_wrap() */
};

struct gt_callsites {
	const struct gt_call *call; /* by address within a function's parts */
	size_t n;
	struct gt_callscan *scan; /* private */
};

/*
 * Finds the calls of names[0 .. n) in all functions that call one of names[first ..), n <= 32.
 * -ENOMEM, -E2BIG: more than a sane file has.
 */
int gt_callsites_find(const struct gt_image *img, const char *const *names, size_t n, size_t first,
		      struct gt_callsites *out);
void gt_callsites_free(struct gt_callsites *cs);

/* From now on calls of the function at `start` count as calls of `api`; out->call is made anew. */
int gt_callsites_wrap(struct gt_callsites *cs, const uint64_t *start, size_t n, size_t api);

/* Bit i: the function (all its parts) calls names[i]. */
uint32_t gt_callsites_apis(const struct gt_callsites *cs, uint64_t owner);

/* Is `start` reached from one of the functions at root[0 .. n) by at most `steps` direct calls? */
int gt_callsites_reached(struct gt_callsites *cs, uint64_t start, const uint64_t *root, size_t n,
			 int steps);

/* Does the code of `from` call or jump to address `to`? */
int gt_code_calls(const struct gt_image *img, const struct gt_range *from, uint64_t to);

#endif
