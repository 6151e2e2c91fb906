// SPDX-License-Identifier: Apache-2.0
/*
 * The main program of a fuzz target in builds without libFuzzer: hands it each file of the
 * folders named, so that the corpus (small valid and broken inputs, and whatever once crashed)
 * is run by every ctest.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay(const char *dir, const char *name)
{
	char path[4096];
	uint8_t *data;
	struct stat st;
	FILE *f;
	int ok;

	if (snprintf(path, sizeof(path), "%s/%s", dir, name) >= (int)sizeof(path))
		return -1;
	f = fopen(path, "re");
	if (!f || fstat(fileno(f), &st)) {
		perror(path);
		return -1;
	}
	if (S_ISDIR(st.st_mode)) {
		fclose(f);
		return 0;
	}
	/* Exactly as large as the input, so that AddressSanitizer sees a byte too far. */
	data = malloc((size_t)st.st_size);
	ok = (data || !st.st_size) && fread(data, 1, (size_t)st.st_size, f) == (size_t)st.st_size;
	if (ok)
		LLVMFuzzerTestOneInput(data, (size_t)st.st_size);
	else
		perror(path);
	free(data);
	fclose(f);
	return ok ? 1 : -1;
}

int main(int argc, char **argv)
{
	int n = 0;

	for (int i = 1; i < argc; i++) {
		DIR *dir = opendir(argv[i]);
		struct dirent *e;

		if (!dir) {
			perror(argv[i]);
			return 1;
		}
		while ((e = readdir(dir)) != NULL) {
			int got = replay(argv[i], e->d_name);

			if (got < 0) {
				closedir(dir);
				return 1;
			}
			n += got;
		}
		closedir(dir);
	}
	printf("%d inputs\n", n);
	return n ? 0 : 1; /* an empty corpus tests nothing */
}
