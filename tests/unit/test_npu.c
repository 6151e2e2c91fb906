// SPDX-License-Identifier: Apache-2.0
/* Real processes that have device nodes of our own open or mapped, under all kinds of names. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "log.h"
#include "npufix.h"

#include <linux/capability.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/syscall.h>

/* ---- the host ---- */

static void finds_the_drivers_devices(void **state)
{
	struct gt_npu_host *h;

	(void)state;
	usual_nodes();
	make_node(dev, "devmm_svm", makedev(5, 2));
	make_node(dev, "hisi_hdc", makedev(5, 0));
	make_node(dev, "davinci_manager_docker", makedev(136, 900));
	make_node(dev, "davinci65535", makedev(136, 901));
	h = host();
	assert_int_equal(gt_npu_host_devices(h), 4);
	assert_non_null(strstr(gt_npu_host_text(h), dev));
	assert_non_null(strstr(gt_npu_host_text(h), "found 4 devices (1 of them virtual) and the "
						    "manager"));
	gt_npu_host_close(h);
}

static void finds_nothing_else(void **state)
{
	static const char *const names[] = {
		"davinci",   "davinci-1",  "davinci+1",           "davinci 1",
		"davinci01", "davinci1 ",  "davinci99999999999",  "davinci65536",
		"davinci1a", "Davinci1",   "xdavinci1",           "davinci4294967296",
		"vdavinci",  "vdavinci-1", "davinci_managers",    "davinci_",
		"null",      "wdavinci1",  "davinci1\nvdavinci1", "vvdavinci1",
	};
	struct gt_npu_host *h;

	(void)state;
	make_file(dev, "davinci0");
	make_link(dev, "davinci1", "/dev/full");
	make_link(dev, "davinci_manager", "/dev/urandom");
	make_link(dev, "davinci2", "davinci2");
	assert_int_equal(mkdir(in(dev, "davinci3"), 0700), 0);
	assert_int_equal(mkfifo(in(dev, "davinci4"), 0600), 0);
	h = host();
	assert_int_equal(gt_npu_host_devices(h), 0);
	assert_non_null(strstr(gt_npu_host_text(h), "davinci<N>"));
	assert_non_null(strstr(gt_npu_host_text(h), "found none"));
	gt_npu_host_close(h);

	need_nodes();
	for (size_t i = 0; i < GT_ARRAY_SIZE(names); i++)
		make_node(dev, names[i], FULL);
	assert_int_equal(mknod(in(dev, "davinci5"), S_IFBLK | 0600, makedev(7, 0)), 0);
	h = host();
	assert_int_equal(gt_npu_host_devices(h), 0);
	assert_non_null(strstr(gt_npu_host_text(h), "found none"));
	gt_npu_host_close(h);
}

static void folder_that_cannot_be_read(void **state)
{
	struct gt_npu_host *h = NULL;

	(void)state;
	assert_int_equal(gt_npu_host_open(in(dev, "none"), &h), -ENOENT);
	make_file(dev, "file");
	assert_int_equal(gt_npu_host_open(in(dev, "file"), &h), -ENOTDIR);
	make_link(scratch, "link", dev);
	assert_int_equal(gt_npu_host_open(in(scratch, "link"), &h), -ENOTDIR);
	assert_null(h);
}

static void of_this_machine(void **state)
{
	struct gt_npu_host *h = NULL;

	(void)state;
	assert_int_equal(gt_npu_host_open(NULL, &h), 0);
	assert_non_null(strstr(gt_npu_host_text(h), "/dev and /sys/dev/char"));
	gt_npu_host_close(h);
}

static void looks_again(void **state)
{
	struct gt_npu_host *h;

	(void)state;
	need_nodes();
	h = host();
	assert_int_equal(gt_npu_host_devices(h), 0);
	make_node(dev, "hisi_hdc", RANDOM);
	assert_int_equal(gt_npu_host_refresh(h), 0);
	assert_non_null(strstr(gt_npu_host_text(h), "found neither a device nor the manager"));
	make_node(dev, "davinci_manager", URANDOM);
	assert_int_equal(gt_npu_host_refresh(h), 0);
	assert_non_null(strstr(gt_npu_host_text(h), "found the manager, but no device"));
	make_node(dev, "davinci0", FULL);
	assert_int_equal(gt_npu_host_refresh(h), 0);
	assert_int_equal(gt_npu_host_devices(h), 1);
	assert_int_equal(rename(dev, in(scratch, "away")), 0);
	assert_int_equal(gt_npu_host_refresh(h), -ENOENT);
	assert_int_equal(gt_npu_host_devices(h), 1);
	assert_non_null(strstr(gt_npu_host_text(h), "found 1 device"));
	assert_int_equal(mkdir(dev, 0700), 0);
	assert_int_equal(gt_npu_host_refresh(h), 0);
	assert_int_equal(gt_npu_host_devices(h), 0);
	gt_npu_host_close(h);
}

static void open_full(void)
{
	MUST(open("/dev/full", O_RDONLY | O_CLOEXEC) >= 0);
}

/* As /sys/dev/char: the kernel's names are right where a container's nodes have others. */
static void list_of_the_kernel(void **state)
{
	struct gt_npu_host *h = NULL;
	struct gt_npus npus;
	struct child c;

	(void)state;
	make_link(elsewhere, "1:7", "../../devices/virtual/devdrv-class/davinci7");
	make_link(elsewhere, "1:9", "../../devices/virtual/devdrv_manager/davinci_manager");
	make_link(elsewhere, "511:1048575", "../../devices/virtual/devdrv-class/vdavinci101");
	make_link(elsewhere, "1:3", "../../devices/virtual/mem/null");
	make_link(elsewhere, "1:5", "davinci1"); /* not of the kernel's form */
	make_link(elsewhere, "1:", "../davinci1");
	make_link(elsewhere, ":7", "../davinci1");
	make_link(elsewhere, "1:7:7", "../davinci1");
	make_link(elsewhere, "17", "../davinci1");
	make_link(elsewhere, "01:5", "../davinci1");
	make_link(elsewhere, "4096:5", "../davinci1");
	make_link(elsewhere, "1:1048576", "../davinci1");
	make_link(elsewhere, "11111111111111111111111111:5", "../davinci1");
	make_link(elsewhere, "1:4", "../davinci01");
	make_file(elsewhere, "1:8");
	assert_int_equal(gt_npu_host_open_in(NULL, elsewhere, &h), 0);
	assert_int_equal(gt_npu_host_devices(h), 2);
	assert_non_null(strstr(gt_npu_host_text(h), elsewhere));
	start(&c, open_full);
	assert_int_equal(gt_npu_of(h, &c.proc, &npus), 1);
	assert_non_null(strstr(npus.source, ": davinci7"));
	assert_int_equal(npus.n, 1);
	assert_int_equal(npus.npu[0].device, 7);
	gt_npu_host_close(h);

	if (can_make_nodes()) {
		make_node(dev, "davinci0", FULL); /* as a container has it */
		make_node(dev, "davinci5", ZERO);
		assert_int_equal(gt_npu_host_open_in(dev, elsewhere, &h), 0);
		assert_int_equal(gt_npu_host_devices(h), 3);
		assert_int_equal(gt_npu_of(h, &c.proc, &npus), 1);
		assert_int_equal(npus.npu[0].device, 7);
		gt_npu_host_close(h);
	}
	end(&c);

	h = NULL;
	assert_int_equal(gt_npu_host_open_in(NULL, in(elsewhere, "none"), &h), -ENOENT);
	assert_null(h);
	assert_int_equal(gt_npu_host_open_in(dev, in(elsewhere, "none"), &h), 0);
	assert_null(strstr(gt_npu_host_text(h), elsewhere)); /* no sysfs: not looked at */
	gt_npu_host_close(h);
}

/* ---- processes ---- */

static void nothing(void)
{
}

static void plain(void)
{
	MUST(dup2(open_node(dev, "davinci0"), 60) == 60);
}

static void by_descriptor(void **state)
{
	struct gt_npus npus;

	(void)state;
	usual_nodes();
	assert_int_equal(look(nothing, &npus), 0);
	assert_int_equal(npus.n, 0);
	assert_string_equal(npus.source, "");

	assert_int_equal(look(plain, &npus), 1);
	assert_int_equal(npus.n, 1);
	assert_int_equal(npus.npu[0].device, 0);
	assert_int_equal(npus.npu[0].is_virtual, 0);
	assert_int_equal(npus.npu[0].by_fd, 1);
	assert_int_equal(npus.npu[0].by_map, 0);
	assert_int_equal(npus.npu[0].card, -1);
	assert_int_equal(npus.npu[0].chip, -1);
	assert_int_equal(npus.cut, 0);
	assert_true(!strncmp(npus.source, "descriptor ", 11) && strstr(npus.source, ": davinci0"));
}

static void renamed(void)
{
	open_new("null", FULL, 70);
}

static void renamed_to_another(void)
{
	open_new("davinci0", ZERO, 70); /* a container's davinci0 is the host's davinci1 */
}

static void deleted(void)
{
	open_new("gone", ZERO, 70);
	MUST(unlink(in(elsewhere, "gone")) == 0);
}

/* A tmpfs that nobody else sees and that no path leads to in the end. */
static void in_another_namespace(void)
{
	int fd;

	MUST(unshare(CLONE_NEWNS) == 0);
	MUST(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
	MUST(mount("tmpfs", elsewhere, "tmpfs", 0, NULL) == 0);
	MUST(mknod(in(elsewhere, "davinci9"), S_IFCHR | 0600, ZERO) == 0);
	fd = open_node(elsewhere, "davinci9");
	MUST(mmap(NULL, 1, PROT_READ, MAP_PRIVATE, fd, 0) != MAP_FAILED);
	MUST(umount2(elsewhere, MNT_DETACH) == 0);
}

static void only_names(void)
{
	MUST(prctl(PR_SET_NAME, "davinci0") == 0);
	make_file(elsewhere, "davinci1");
	MUST(open(in(elsewhere, "davinci1"), O_RDWR) >= 0);
	MUST(open("/dev/null", O_RDWR) >= 0);
	MUST(memfd_create("/dev/davinci0", 0) >= 0);
	/* a block device may have the number of another's character device */
	MUST(mknod(in(elsewhere, "block"), S_IFBLK | 0600, FULL) == 0);
	MUST(open(in(elsewhere, "block"), O_PATH | O_CLOEXEC) >= 0);
}

static void names_do_not_matter(void **state)
{
	struct gt_npus npus;

	(void)state;
	usual_nodes();
	assert_int_equal(look(renamed, &npus), 1);
	assert_int_equal(npus.npu[0].device, 0);
	assert_int_equal(look(renamed_to_another, &npus), 1);
	assert_int_equal(npus.n, 1);
	assert_int_equal(npus.npu[0].device, 1);
	assert_int_equal(look(deleted, &npus), 1);
	assert_int_equal(npus.npu[0].device, 1);
	assert_int_equal(look(only_names, &npus), 0);
	assert_int_equal(npus.n, 0);
}

static void another_mount_namespace(void **state)
{
	struct gt_npus npus;

	(void)state;
	usual_nodes();
	assert_int_equal(look(in_another_namespace, &npus), 1);
	assert_int_equal(npus.n, 1);
	assert_int_equal(npus.npu[0].device, 1);
	assert_int_equal(npus.npu[0].by_fd, 1);
	assert_int_equal(npus.npu[0].by_map, 1);
}

static void map_and_close(const char *folder, const char *name)
{
	int fd = open_node(folder, name);

	MUST(mmap(NULL, 1, PROT_READ, MAP_PRIVATE, fd, 0) != MAP_FAILED);
	close(fd);
}

static void mapped(void)
{
	map_and_close(dev, "davinci1");
}

static void mapped_and_deleted(void)
{
	MUST(mknod(in(elsewhere, "zero"), S_IFCHR | 0600, ZERO) == 0);
	map_and_close(elsewhere, "zero");
	MUST(unlink(in(elsewhere, "zero")) == 0);
}

static void unmapped(void)
{
	int fd = open_node(dev, "davinci1");
	void *at = mmap(NULL, 1, PROT_READ, MAP_PRIVATE, fd, 0);

	MUST(at != MAP_FAILED && munmap(at, 1) == 0);
	close(fd);
}

/* Behind many files, each mapped in pieces, whose names look like other lines of maps. */
static void mapped_behind_others(void)
{
	char name[64];

	for (int i = 0; i < 300; i++) {
		int fd;

		snprintf(name, sizeof(name), "%d\n1000-2000 r--p 0 0:5 9 davinci0", i);
		fd = memfd_create(name, MFD_CLOEXEC);
		MUST(fd >= 0 && ftruncate(fd, 8192) == 0);
		MUST(mmap(NULL, 8192, PROT_READ, MAP_SHARED, fd, 0) != MAP_FAILED);
		MUST(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0) != MAP_FAILED);
		close(fd);
	}
	mapped();
}

static void by_mapping(void **state)
{
	struct gt_npus npus;

	(void)state;
	usual_nodes();
	assert_int_equal(look(mapped, &npus), 1);
	assert_int_equal(npus.n, 1);
	assert_int_equal(npus.npu[0].device, 1);
	assert_int_equal(npus.npu[0].by_fd, 0);
	assert_int_equal(npus.npu[0].by_map, 1);
	assert_string_equal(npus.source, "mapping: davinci1");
	assert_int_equal(look(mapped_and_deleted, &npus), 1);
	assert_int_equal(npus.npu[0].device, 1);
	assert_int_equal(look(mapped_behind_others, &npus), 1);
	assert_int_equal(npus.n, 1);
	assert_int_equal(npus.npu[0].device, 1);
	assert_int_equal(look(unmapped, &npus), 0);
}

static void manager_only(void)
{
	MUST(dup2(open_node(dev, "davinci_manager"), 80) == 80);
}

static void several(void)
{
	manager_only();
	open_node(dev, "vdavinci100");
	open_node(dev, "davinci1");
	mapped();
	MUST(dup(open_node(dev, "davinci0")) >= 0);
}

static void manager_and_several(void **state)
{
	struct gt_npus npus;
	char text[64];

	(void)state;
	usual_nodes();
	assert_int_equal(look(manager_only, &npus), 1);
	assert_int_equal(npus.n, 0);
	assert_non_null(strstr(npus.source, ": davinci_manager"));

	assert_int_equal(look(several, &npus), 1);
	assert_int_equal(npus.n, 3);
	assert_int_equal(npus.npu[0].device, 0);
	assert_int_equal(npus.npu[1].device, 1);
	assert_int_equal(npus.npu[1].by_fd, 1);
	assert_int_equal(npus.npu[1].by_map, 1);
	assert_int_equal(npus.npu[2].device, 100);
	assert_int_equal(npus.npu[2].is_virtual, 1);
	assert_null(strstr(npus.source, "manager")); /* a device tells more */
	gt_npus_text(&npus, text, sizeof(text));
	assert_string_equal(text, "0,1,v100");
}

#define PTYS 70

/* Each has a number of its own, and nothing hangs on them. */
static void many_devices(void)
{
	for (int i = 0; i < PTYS; i++) {
		int fd = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC), unlock = 0;
		char name[32];
		struct stat st;

		MUST(fd >= 0 && ioctl(fd, TIOCSPTLCK, &unlock) == 0);
		fd = ioctl(fd, TIOCGPTPEER, O_RDWR | O_NOCTTY);
		MUST(fd >= 0 && fstat(fd, &st) == 0);
		/* Opened in the opposite order of the numbers. */
		snprintf(name, sizeof(name), "davinci%d", PTYS - i);
		MUST(mknod(in(dev, name), S_IFCHR | 0600, st.st_rdev) == 0);
	}
}

static void more_than_fit(void **state)
{
	struct gt_npu_host *h = NULL;
	struct gt_npus npus;
	struct child c;
	char text[256];

	(void)state;
	need_nodes();
	start(&c, many_devices);
	h = host();
	assert_int_equal(gt_npu_host_devices(h), PTYS);
	assert_int_equal(gt_npu_of(h, &c.proc, &npus), 1);
	assert_int_equal(npus.n, GT_NPUS_MAX);
	assert_int_equal(npus.n_left_out, PTYS - GT_NPUS_MAX);
	for (uint32_t i = 0; i < npus.n; i++)
		assert_int_equal(npus.npu[i].device, i + 1);
	gt_npus_text(&npus, text, sizeof(text));
	assert_non_null(strstr(text, ",64 +6 more"));
	end(&c);
	gt_npu_host_close(h);
}

/* ---- bounds, ends, rights ---- */

static int n_descriptors;

static void many_descriptors(void)
{
	struct rlimit limit;
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	MUST(getrlimit(RLIMIT_NOFILE, &limit) == 0);
	limit.rlim_cur = limit.rlim_max;
	MUST(setrlimit(RLIMIT_NOFILE, &limit) == 0);
	while (fd < n_descriptors) {
		fd = dup(fd);
		MUST(fd >= 0);
	}
	plain(); /* below most of them */
	MUST(dup(open_node(dev, "davinci1")) > n_descriptors);
}

static void descriptors_without_end(void **state)
{
	struct rlimit limit;
	struct gt_npus npus;

	(void)state;
	usual_nodes();
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	if (limit.rlim_max < 18000) {
		print_message("skipped: no more than %ju descriptors here\n",
			      (uintmax_t)limit.rlim_max);
		skip();
	}
	n_descriptors = 10000;
	assert_int_equal(look(many_descriptors, &npus), 1);
	assert_int_equal(npus.n, 2);
	assert_int_equal(npus.cut, 0);
	n_descriptors = 17000;
	assert_int_equal(look(many_descriptors, &npus), 1);
	assert_int_equal(npus.n, 1);
	assert_int_equal(npus.npu[0].device, 0);
	assert_int_equal(npus.cut, 1);
}

static void process_that_has_ended(void **state)
{
	struct gt_npus npus = {.n = 77};
	struct gt_npu_host *h;
	struct child c;

	(void)state;
	usual_nodes();
	h = host();
	start(&c, plain);
	close(c.hold);
	assert_int_equal(waitid(P_PID, (id_t)c.pid, &(siginfo_t){0}, WEXITED | WNOWAIT), 0);
	assert_int_equal(gt_npu_of(h, &c.proc, &npus), -ESRCH); /* a zombie */
	assert_int_equal(waitpid(c.pid, NULL, 0), c.pid);
	assert_int_equal(gt_npu_of(h, &c.proc, &npus), -ESRCH);
	assert_int_equal(npus.n, 77); /* untouched on failure */
	gt_proc_close(&c.proc);
	gt_npu_host_close(h);
}

static void process_that_ends_meanwhile(void **state)
{
	struct gt_npu_host *h;

	(void)state;
	usual_nodes();
	h = host();
	n_descriptors = 2000;
	for (int i = 0; i < 20; i++) {
		struct gt_npus npus;
		struct child c;
		pid_t killer;
		int r;

		start(&c, many_descriptors);
		killer = fork();
		assert_true(killer >= 0);
		if (killer == 0)
			_exit(kill(c.pid, SIGKILL));
		do
			r = gt_npu_of(h, &c.proc, &npus);
		while (r == 1);
		/* 0 where it has no descriptors any more, but has not ended quite. */
		assert_true(r == -ESRCH || r == 0);
		assert_int_equal(waitpid(killer, NULL, 0), killer);
		assert_int_equal(waitpid(c.pid, NULL, 0), c.pid);
		assert_int_equal(gt_npu_of(h, &c.proc, &npus), -ESRCH);
		close(c.hold);
		gt_proc_close(&c.proc);
	}
	gt_npu_host_close(h);
}

static void drop_rights(void)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2];
	const int drop[] = {CAP_SYS_ADMIN, 40 /* CAP_CHECKPOINT_RESTORE, Linux 5.9 */};

	MUST(syscall(SYS_capget, &head, data) == 0);
	for (size_t i = 0; i < GT_ARRAY_SIZE(drop); i++)
		data[drop[i] / 32].effective &= ~(1u << drop[i] % 32);
	MUST(syscall(SYS_capset, &head, data) == 0);
}

/* What a giltrace without the right to follow map_files finds of such a process. */
static int look_without_rights(void (*prepare)(void), const char *char_list)
{
	struct gt_npu_host *h = NULL;
	struct gt_npus npus;
	struct child c;
	int status;
	pid_t pid;

	assert_int_equal(gt_npu_host_open_in(dev, char_list, &h), 0);
	start(&c, prepare);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		drop_rights();
		MUST(gt_npu_of(h, &c.proc, &npus) >= 0);
		_exit(10 + (npus.bound && npus.npu[0].by_map && npus.npu[0].device == 1));
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	end(&c);
	gt_npu_host_close(h);
	return WEXITSTATUS(status) - 10;
}

static void without_map_files(void **state)
{
	(void)state;
	usual_nodes();
	make_link(elsewhere, "1:5", "../../devices/virtual/devdrv-class/davinci1");
	assert_int_equal(look_without_rights(mapped, NULL), 1);
	assert_int_equal(look_without_rights(mapped, elsewhere), 1);
	assert_int_equal(look_without_rights(mapped_and_deleted, NULL), 0); /* as documented */
	assert_int_equal(look_without_rights(unmapped, NULL), 0);
}

static void host_without_driver(void **state)
{
	struct gt_npus npus;

	(void)state;
	assert_int_equal(look(open_full, &npus), 0);
}

static void as_text(void **state)
{
	struct gt_npus npus = {.n = 3,
			       .npu = {{.device = 0, .card = 4, .chip = 0},
				       {.device = 12, .card = 4, .chip = 1},
				       {.device = 13, .card = -1, .chip = -1}}};
	char buf[64] = "before";

	(void)state;
	gt_npus_text(&npus, buf, sizeof(buf));
	assert_string_equal(buf, "0 (NPU 4 chip 0),12 (NPU 4 chip 1),13");
	gt_npus_text(&npus, buf, 38);
	assert_string_equal(buf, "0 (NPU 4 chip 0),12 (NPU 4 chip 1),13");
	gt_npus_text(&npus, buf, 37);
	assert_string_equal(buf, "0 (NPU 4 chip 0),12 (NPU 4 chip 1)");
	gt_npus_text(&npus, buf, 16);
	assert_string_equal(buf, "");
	gt_npus_text(&npus, buf, 1);
	assert_string_equal(buf, "");
	npus.n = 0;
	gt_npus_text(&npus, buf, sizeof(buf));
	assert_string_equal(buf, "");
	buf[0] = 'x';
	gt_npus_text(&npus, buf, 0);
	assert_int_equal(buf[0], 'x');
}

static int quiet(void **state)
{
	(void)state;
	gt_log_setup("test", GT_LOG_ERROR);
	return 0;
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(finds_the_drivers_devices),
		TEST(finds_nothing_else),
		TEST(folder_that_cannot_be_read),
		TEST(of_this_machine),
		TEST(looks_again),
		TEST(list_of_the_kernel),
		TEST(by_descriptor),
		TEST(names_do_not_matter),
		TEST(another_mount_namespace),
		TEST(by_mapping),
		TEST(manager_and_several),
		TEST(more_than_fit),
		TEST(descriptors_without_end),
		TEST(process_that_has_ended),
		TEST(process_that_ends_meanwhile),
		TEST(without_map_files),
		TEST(host_without_driver),
		TEST(as_text),
	};

	return cmocka_run_group_tests_name("npu", tests, quiet, NULL);
}
