// SPDX-License-Identifier: Apache-2.0
//
// A program that is no Python and maps files as if they were code: argv. Says so, and waits.

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	char c;

	for (int i = 1; i < argc; i++) {
		int fd = open(argv[i], O_RDONLY | O_CLOEXEC);

		if (mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0) == MAP_FAILED)
			return 1;
		close(fd);
	}
	printf("[]\n");
	fflush(stdout);
	return read(0, &c, 1) < 0;
}
