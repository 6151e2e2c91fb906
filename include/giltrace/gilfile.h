/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gilfile.h - the .gil file: constants of its format and a reader that trusts nothing.
 *
 * A file is a 32-byte header followed by blocks. Each block carries its type, sizes, a sequence
 * number, the time range, the exact number of lost events so far and a CRC-32; a reader skips
 * block types that it does not know. A file that ends early (a killed recorder) is good up to its
 * last whole block. docs/file-format.md is the specification.
 *
 * A reader is used by one thread at a time. It needs memory for the clock samples (one a second)
 * and for one block, not for events. Times are CLOCK_MONOTONIC nanoseconds (mono_ns) of the host
 * that recorded, or Unix time in nanoseconds (unix_ns).
 */
#ifndef GILTRACE_GILFILE_H
#define GILTRACE_GILFILE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- layout; all integers little-endian ---- */

#define GIL_MAGIC       "\x89GIL\r\n\x1a\n" /* 8 bytes; damaged by any text-mode copy */
#define GIL_MAJOR       1                   /* a reader refuses a greater one */
#define GIL_MINOR       3                   /* grows with additions that old readers may skip */
#define GIL_HEADER_SIZE 32

/* File header: magic[8], u16 major, u16 minor, u32 header_size, u32 arch (ELF e_machine),
 * u32 reserved = 0, u32 reserved = 0, u32 crc32 of the 28 bytes before. */

#define GIL_BLOCK_MAGIC       0x4b4c4247u /* "GBLK" */
#define GIL_BLOCK_HEADER_SIZE 56
#define GIL_BLOCK_PAYLOAD_MAX (1u << 20)
#define GIL_BLOCK_THREADS_MAX 1024         /* different threads in one EVENTS block */
#define GIL_TIME_MAX          (1ull << 62) /* a time in ns is from 1 to below this */

/* Block header: u32 magic, u16 type, u8 codec, u8 reserved = 0, u32 payload_size, u32 count,
 * u64 seq, u64 first_mono_ns, u64 last_mono_ns, u64 lost_total, u32 crc32 of the payload,
 * u32 crc32 of the 52 bytes before: so a header can be trusted without reading its payload. */

enum gil_block_type {
	GIL_BLOCK_META = 1,   /* pairs of strings: who, what, when, how */
	GIL_BLOCK_SITES = 2,  /* the probe sites, in the order of their index */
	GIL_BLOCK_CLOCK = 3,  /* readings of four clocks at one instant */
	GIL_BLOCK_EVENTS = 4, /* encoded events */
	GIL_BLOCK_END = 5,    /* why and how the recording ended; the last block of a whole file */
};

enum gil_codec {
	GIL_CODEC_PLAIN = 0,
	GIL_CODEC_DELTA = 1, /* events: delta + varint */
};

/* Kinds of events; the values never change. */
enum gil_kind {
	GIL_WAIT = 1,
	GIL_ACQUIRE = 2,
	GIL_RELEASE = 3,
	GIL_YIELD = 4,
	GIL_TAKE = 5,
	GIL_DROPPED = 6,
	GIL_FORCED = 7, /* in the file only: the reader joins it to the RELEASE right behind it */
	GIL_THREAD = 8,
	GIL_GIL = 9,
	GIL_LOST = 10,
	GIL_BEFORE = 11, /* what a thread was in when the recording began */
	GIL_EXIT = 12,   /* the thread has ended; later ones with its tid are of another thread */
	GIL_LEFT = 13,   /* its wait is over without the GIL, which was switched off (3.13t+) */
	GIL_LATE = 14,   /* the process was there before its recording began */
	GIL_MARK = 16,   /* a named instant, set by the program or by a person */
	GIL_PAUSED = 17, /* for a while nothing was recorded, as somebody had asked for */
};

enum gil_before { GIL_BEFORE_WAITING = 1, GIL_BEFORE_HOLDING = 2 };

#define GIL_INDEX_OTHER 0xff /* .gil of an event: a GIL beyond those told apart */
#define GIL_COMM_LEN    16
#define GIL_NAME_MAX    63  /* bytes of a thread's name in the interpreter, without a NUL */
#define GIL_MARK_MAX    127 /* bytes of the name of a mark, without a NUL */

enum gil_end_reason {
	GIL_END_DURATION = 1,    /* the time asked for has passed */
	GIL_END_STOPPED = 2,     /* SIGINT or SIGTERM */
	GIL_END_TARGET_EXIT = 3, /* the process has ended */
	GIL_END_EXEC = 5,        /* the process has executed another program */
	GIL_END_WINDOW = 6, /* a window of a recording that goes on: META "recording.trigger" */
	GIL_END_ERROR = 4,  /* the recorder gave up; META key "end.error" may say why */
};

/* ---- events ---- */

struct gil_event {
	uint64_t mono_ns;
	/* In the recorder's PID namespace; 0 for GIL_LOST, GIL_LATE, GIL_PAUSED, and for a GIL_MARK
	 * that is the process's. */
	uint32_t tid;
	uint8_t kind;        /* enum gil_kind; the reader leaves out kinds that it does not know */
	uint8_t gil;         /* index of the GIL, or GIL_INDEX_OTHER */
	uint8_t site;        /* index into the sites; gil_reader_site() may not have it */
	uint8_t unconfirmed; /* GIL_GIL: seen at a release only; may be no GIL until told again */
	uint8_t forced;      /* GIL_RELEASE: the drop request was set, another thread wanted it */
	union {
		struct {
			uint32_t ns_tid;         /* in the target's PID namespace; 0: not known */
			char comm[GIL_COMM_LEN]; /* NUL-terminated; any bytes, maybe not UTF-8 */
			uint32_t host_tid; /* in the host's; 0: not known, or the event's tid is it
					    */
			/*
			 * threading.Thread.name as UTF-8, though any bytes may be in it; NULL: not
			 * known. Reader: GIL_NAME_MAX bytes at most, valid until its next call.
			 * Writer: only read during the call; what is longer is cut, "" is NULL.
			 */
			const char *name;
		} thread; /* GIL_THREAD; a later one for the same tid replaces it */
		struct {
			uint64_t addr; /* of gil->cond in the target; 0: not known */
		} gil_ident;           /* GIL_GIL */
		struct {
			uint64_t begin_mono_ns; /* first event lost; the gap ends at mono_ns */
			uint64_t count;         /* events lost in this gap, exactly */
		} lost;                         /* GIL_LOST */
		struct {
			uint8_t state; /* enum gil_before */
		} before; /* GIL_BEFORE; mono_ns is the start of the recording, not of the state */
		struct {
			/*
			 * From here to mono_ns the process may have had events that are not
			 * recorded: it was born, or became what was asked for, while others were
			 * being recorded. How many is not known. From 1 to mono_ns.
			 */
			uint64_t begin_mono_ns;
		} late; /* GIL_LATE, the first event of its file */
		struct {
			/*
			 * As UTF-8, though any bytes but 0 may be in it, never empty. Reader:
			 * GIL_MARK_MAX bytes at most, valid until its next call. Writer: only read
			 * during the call; what is longer is cut between two characters.
			 */
			const char *name;
		} mark; /* GIL_MARK; mono_ns is its instant, events before and behind it may be
			 * in the file in any order with it */
		struct {
			/* From here to mono_ns nothing was recorded; nobody knows what happened. */
			uint64_t begin_mono_ns;
		} paused; /* GIL_PAUSED; all that was known of threads and GILs before is unknown */
	};
};

/* Readings of the clocks at one instant, as near as they could be had. */
struct gil_clock {
	uint64_t mono_ns;  /* CLOCK_MONOTONIC: the instant */
	uint64_t raw_ns;   /* CLOCK_MONOTONIC_RAW */
	uint64_t unix_ns;  /* CLOCK_REALTIME */
	uint64_t boot_ns;  /* CLOCK_BOOTTIME */
	uint64_t error_ns; /* each of the three lies within +- this of the instant */
};

#define GIL_SITE_HOW_MAX 96

struct gil_site {
	uint64_t offset; /* of the probed instruction in the file */
	uint8_t kind;    /* enum gil_kind */
	/* Bit 0: return probe; 1: GIL not told apart; 2: known GILs only; 3: a function of libc,
	 * the argument decides; 4: single-stepped by the kernel;
	 * 5: a release only by a thread that holds. */
	uint8_t flags;
	char how[GIL_SITE_HOW_MAX]; /* how it was found, for people */
};

/* ---- reader ---- */

typedef struct gil_reader gil_reader;

/*
 * Opens a file and reads all blocks but the events: clock samples, meta, sites, end.
 * Returns 0, or -errno with a message that names the path, the offset and the reason in `why`
 * (cut to why_size): -EINVAL not a .gil file, -EPROTO damaged before the first event,
 * -ENOTSUP made by a newer major version, others from the system. Only regular files are read.
 */
int gil_reader_open(const char *path, gil_reader **out, char *why, size_t why_size);
/* On a descriptor, which is taken over, also on failure. `name` stands in messages for the path. */
int gil_reader_open_fd(int fd, const char *name, gil_reader **out, char *why, size_t why_size);

void gil_reader_close(gil_reader *r);

/*
 * The next event, in the file's order: by time within a thread and within a GIL, but for GIL_MARK.
 * Returns 1 and fills *ev, or 0 at the end of what is good; then ask gil_reader_problem().
 */
int gil_reader_next(gil_reader *r, struct gil_event *ev);

/* Starts again at the first event. */
void gil_reader_rewind(gil_reader *r);

/* How much of the file the events so far have come from, in thousandths. */
unsigned int gil_reader_permille(const gil_reader *r);

/*
 * What was left out and where (path, offset, reason), or NULL if nothing was. Meaningful once
 * gil_reader_next() has returned 0; damage that the scan at open has found is known before.
 * Owned by the reader.
 */
const char *gil_reader_problem(const gil_reader *r);

/*
 * Minor version of the file's format. From 1 on a release without .forced was not asked for; in a
 * file of version 0, or one of function probes, nothing is known of it.
 */
unsigned int gil_reader_minor(const gil_reader *r);

/* Value of a META key or NULL; with several of one key, the last. Owned by the reader. */
const char *gil_reader_meta(const gil_reader *r, const char *key);

size_t gil_reader_sites(const gil_reader *r);
const struct gil_site *gil_reader_site(const gil_reader *r, size_t i); /* NULL: no such */

size_t gil_reader_clocks(const gil_reader *r);
const struct gil_clock *gil_reader_clock(const gil_reader *r, size_t i); /* NULL: no such */

/*
 * First and last time covered: of clock samples, events and the end, from the block headers.
 * 0: empty.
 * Where gil_reader_next() has found damage, these and the lost total are then those of the part
 * before it.
 */
uint64_t gil_reader_first_mono_ns(const gil_reader *r);
uint64_t gil_reader_last_mono_ns(const gil_reader *r);

/* Lost events by the last good block header. */
uint64_t gil_reader_lost_total(const gil_reader *r);

/* enum gil_end_reason, or 0 where the file has no END block (the recorder was killed). */
int gil_reader_end_reason(const gil_reader *r);

/*
 * Unix time of a CLOCK_MONOTONIC time, by the first clock sample. Both clocks are slewed alike,
 * so their distance changes only when the wall clock is set; then the trace stays on the time
 * that was valid at its start, and gil_reader_clock_step_ns() tells how far it was set (signed,
 * the sum over the recording, 0 below 1 ms). Never below 1. Without a sample: mono_ns itself.
 */
uint64_t gil_reader_unix_ns(const gil_reader *r, uint64_t mono_ns);
int64_t gil_reader_clock_step_ns(const gil_reader *r);

#ifdef __cplusplus
}
#endif

#endif
