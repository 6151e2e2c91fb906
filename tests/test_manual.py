# SPDX-License-Identifier: Apache-2.0
"""test_manual.py GILTRACE GIL2TRACE: manual pages and completions against what they are of.

--help of a program has the options; the manual page, and the completions for bash and zsh, driven
as a shell does it, must have these and no others. The values of an option are those that the program
names where it is given another one. Environment variables are those that the sources ask for,
functions and numbers those of the headers, exit statuses those of --help and the README.
"""
import contextlib
import functools
import glob
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MAN = os.path.join(TOP, "docs", "man")
COMPLETION = os.path.join(TOP, "tools", "completion")
BASH_COMPLETION = "/usr/share/bash-completion/bash_completion"
PAGES = ("giltrace.1", "gil2trace.1", "gilfile.5", "libgiltrace.3")
SECTIONS = {"giltrace.1": ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXIT STATUS",
                           "ENVIRONMENT", "FILES", "EXAMPLES", "NOTES", "SEE ALSO"],
            "gil2trace.1": ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXIT STATUS",
                            "ENVIRONMENT", "EXAMPLES", "NOTES", "SEE ALSO"]}
LIMIT = 20
PROGRAMS = {}  # name: path


def read(*names):
    with open(os.path.join(TOP, *names), encoding="utf-8") as f:
        return f.read()


def needs(path, what):
    return unittest.skipUnless(path, "SKIPPED: no %s here" % what)


# ---- what a program says of itself ----

@functools.lru_cache(None)
def run(*argv):
    p = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=LIMIT,
                       stdin=subprocess.DEVNULL, env=dict(os.environ, ARGP_HELP_FMT="rmargin=200"))
    return p.returncode, p.stdout.decode(), p.stderr.decode()


def help_of(program):
    return run(PROGRAMS[program], "--help")[1]


def help_options(program):
    """"-p, --pid=PID[,PID...]", as they stand there."""
    return [re.split(r" {2,}", line.strip())[0] for line in help_of(program).splitlines()
            if re.match(r"(  |      )-\S", line)]


def names_of(option):
    """(-s or None, --long, "=", "[=" or "")"""
    short, long_name, value = re.fullmatch(r"(?:(-\S), )?(--[\w-]+)(\[=|=|).*", option).groups()
    return short, long_name, value


def values_of(program, long_name):
    """The words that an option takes, or []: it takes others."""
    status, _, said = run(PROGRAMS[program], long_name + "=?", "-h")
    said = re.search(r"%s is ([\w, -]+), not '?\?'?$|%s: '\?' is no \w+; there are ([\w, -]+)$" %
                     (long_name, long_name), said, re.M)
    if status != 2 or not said:
        return []
    return re.split(r", | or ", said.group(1) or said.group(2))


def help_statuses(program):
    block = help_of(program).split("\nExit status")[1]
    return {int(n): " ".join(text.split())
            for n, text in re.findall(r"(?ms)^  (\d)  (.*?)$(?=\n  \d|\s*\Z)", block)}


# ---- what a page says ----

def plain(line):
    macro = re.match(r"\.(B|I|BR|RB|IR|RI|BI|IB) ", line)
    if macro:
        words = [a or b for a, b in re.findall(r'"([^"]*)"|(\S+)', line[macro.end():])]
        line = ("" if len(macro.group(1)) > 1 else " ").join(words)
    return re.sub(r"\\f[BIRP]", "", line).replace(r"\-", "-").replace(r"\~", " ")


def section(page, name):
    return re.search(r"(?ms)^\.SH %s\n(.*?)(?=^\.SH |\Z)" % name, read(MAN, page)).group(1)


def items(text):
    """[(tag, words, [(tag, words) of those inside])] of .TP"""
    out, inside = [], 0
    lines = iter(text.splitlines())
    for line in lines:
        if line.startswith((".RS", ".RE")):
            inside += 1 if line == ".RS" else -1
        elif line == ".TP":
            item = (plain(next(lines)), [], [])
            (out[-1][2] if inside else out).append(item)
        elif line.startswith((".SS", ".PP")):
            out.append(("", [], []))
        elif out:
            into = out[-1][2][-1] if inside and out[-1][2] else out[-1]
            into[1].append(plain(line))
    return [(tag, " ".join(words), [(t, " ".join(w)) for t, w, _ in more])
            for tag, words, more in out if tag]


class Programs(unittest.TestCase):
    maxDiff = None

    def test_options(self):
        for program in PROGRAMS:
            page = [tag for tag, _, _ in items(section(program + ".1", "OPTIONS"))]
            self.assertGreater(len(page), 10)
            self.assertEqual(sorted(page), sorted(help_options(program)))

    def test_values(self):
        found = 0
        for program in PROGRAMS:
            for tag, _, values in items(section(program + ".1", "OPTIONS")):
                want = values_of(program, names_of(tag)[1]) if names_of(tag)[2] else []
                self.assertEqual(sorted(v for v, _ in values), sorted(want), tag)
                found += len(want)
        self.assertGreater(found, 15)

    def test_exit_statuses(self):
        table = {}
        for cells in re.findall(r"(?m)^\| (\d) \|(.*?)\|(.*?)\|$",
                                read("README.md").split("## Exit statuses")[1]):
            for program, text in zip(("giltrace", "gil2trace"), cells[1:]):
                if text.strip():
                    table.setdefault(program, {})[int(cells[0])] = text.strip()
        for program in PROGRAMS:
            page = {int(tag): text for tag, text, _ in
                    items(section(program + ".1", "EXIT STATUS"))}
            page = {n: text.split(" With a ")[0] for n, text in page.items()}
            self.assertEqual(page, help_statuses(program))
            self.assertGreaterEqual(len(page), 4)
            first = [{n: re.split(r"[,:(]", text)[0].strip() for n, text in of.items()}
                     for of in (page, table[program])]
            self.assertEqual(first[0], first[1])

    def test_version(self):
        for program in PROGRAMS:
            version = run(PROGRAMS[program], "--version")[1].split()[-1]
            for page in PAGES:
                self.assertIn('"giltrace %s"' % version, read(MAN, page).splitlines()[1])


class Sources(unittest.TestCase):
    """Pages against sources and headers."""
    maxDiff = None

    def variables(self, *patterns):
        """Names that getenv() and secure_getenv() are called with, in these files."""
        found = set()
        for path in {p for pattern in patterns for p in glob.glob(os.path.join(TOP, pattern))}:
            text = read(path)
            for arg in re.findall(r"\b(?:secure_)?getenv\(([^()]*?)\)", text):
                if arg.startswith("const struct"):  # gt_proc_getenv(), another's environment
                    continue
                if arg.startswith('"'):
                    found.add(arg.strip('"'))
                    continue
                # It is handed to a function, or stands in an array.
                names = set(re.findall(r'(?:sudo_id|option)\((?:given, )?"([A-Z_]+)"\)', text))
                array = re.search(r"\bnames\[\] = \{(.*?)\}", text, re.S)
                names |= set(re.findall(r'"([A-Z_]+)"', array.group(1))) if array else set()
                self.assertTrue(names, "%s: what is %s?" % (path, arg))
                found |= names
            if re.search(r"\b(execvpe?|posix_spawnp)\(", text):
                found.add("PATH")
        return found

    def in_page(self, page):
        return {name for tag, _, _ in items(section(page, "ENVIRONMENT"))
                for name in re.split(r",? ", tag)}

    def test_environment(self):
        cells = "tools/cells.c"  # the summary, which both print
        self.assertEqual(self.in_page("giltrace.1"), self.variables("src/[!c]*.c", "src/c[!l]*.c",
                                                                    "src/clock.c", cells))
        self.assertEqual(self.in_page("gil2trace.1"), self.variables("tools/*.c"))
        client = self.variables("src/client*.c")
        self.assertEqual(self.in_page("libgiltrace.3") - {"PATH"}, client - {"PATH"})
        self.assertGreaterEqual(len(client), 2)

    def test_rank(self):
        names = re.search(r"global_names\[\] = \{(.*?)\}", read("src/rank.c"), re.S).group(1)
        for name in re.findall(r'"(\w+)"', names):
            self.assertRegex(section("giltrace.1", "ENVIRONMENT"), r"\b%s\b" % name)

    def functions(self, header):
        text = re.sub(r"(?s)/\*.*?\*/", "", read("include", "giltrace", header))
        return set(re.findall(r"\b(gil\w+)\(", text))

    def test_functions(self):
        want = self.functions("giltrace.h")
        page = read(MAN, "libgiltrace.3")
        self.assertEqual(set(re.findall(r"\b(giltrace_\w+)\(", page)), want)
        name = section("libgiltrace.3", "NAME")
        self.assertEqual(set(re.findall(r"\b(giltrace_\w+)", name)), want)
        synopsis = re.sub(r"\\f.|\s+", " ", section("libgiltrace.3", "SYNOPSIS"))
        header = re.sub(r"(?s)/\*.*?\*/", "", read("include", "giltrace", "giltrace.h"))
        for declaration in re.findall(r"(?m)^[\w *]+\bgiltrace_\w+\([^;]*\);", header):
            self.assertIn(re.sub(r"\s", "", declaration), re.sub(r"\s", "", synopsis))
        self.assertEqual(set(re.findall(r"\b(gil_\w+)\(", read(MAN, "gilfile.5"))),
                         self.functions("gilfile.h"))

    def test_constants(self):
        header = read("include", "giltrace", "giltrace.h")
        page = read(MAN, "libgiltrace.3")
        for name in (set(re.findall(r"\b(GILTRACE_[A-Z_]+) = \d", header)) |
                     set(re.findall(r"#define (GILTRACE_\w+_INIT)", header))):
            self.assertRegex(page, r"\b%s\b" % name)
        for struct in ("opts", "stats"):
            body = re.search(r"(?ms)^struct giltrace_%s \{(.*?)^\};" % struct, header).group(1)
            body = re.sub(r"(?s)/\*.*?\*/", "", body)
            members = re.findall(r"(\w+);", body)
            self.assertGreater(len(members), 7)
            for name in members:
                self.assertRegex(page, r"\b%s\b" % name)

    def test_file_format(self):
        header = read("include", "giltrace", "gilfile.h")
        page = section("gilfile.5", "DESCRIPTION")
        for enum, prefix, title in (("gil_block_type", "GIL_BLOCK_", "Blocks"),
                                    ("gil_kind", "GIL_", "Kinds of events")):
            body = re.search(r"(?ms)^enum %s \{(.*?)^\};" % enum, header).group(1)
            want = {"%s %s" % (n, name) for name, n in
                    re.findall(r"\b%s([A-Z]+) = (\d+)" % prefix, body)}
            part = re.search(r"(?ms)^\.SS %s\n(.*?)(?=^\.SS )" % title, page).group(1)
            self.assertEqual({tag for tag, _, _ in items(part)}, want)
        numbers = dict(re.findall(r"#define (GIL_M\w+OR)\s+(\d+)", header))
        self.assertIn("version %(GIL_MAJOR)s.%(GIL_MINOR)s" % numbers, page)
        reasons = re.search(r"(?ms)^enum gil_end_reason \{(.*?)^\};", header).group(1)
        for n in re.findall(r"= (\d+)", reasons):
            self.assertRegex(page, r"[(,]\s?%s\s" % n)


class Pages(unittest.TestCase):
    def test_sections(self):
        for page, want in SECTIONS.items():
            self.assertEqual(re.findall(r"(?m)^\.SH (.*)$", read(MAN, page)), want)

    def test_links(self):
        """Pages and documents that are named are there."""
        for page in PAGES:
            text = section(page, "SEE ALSO")
            for name, number in re.findall(r"^\.BR (\S+) \((\d)\)", text, re.M):
                if name != "capabilities":
                    self.assertIn("%s.%s" % (name, number), PAGES)
            for name in re.findall(r"^\.I (\S+\.md)$", read(MAN, page), re.M):
                self.assertTrue(os.path.exists(os.path.join(TOP, "docs", name.replace("\\", ""))),
                                "%s: %s" % (page, name))

    @needs(shutil.which("man"), "man")
    def test_man(self):
        """A terminal of 80 columns; no warning."""
        for page in PAGES:
            p = subprocess.run(["man", "--warnings", "-E", "UTF-8", "-l", os.path.join(MAN, page)],
                               env=dict(os.environ, MANWIDTH="80", MANPAGER="cat",
                                        LC_ALL="C.UTF-8"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=LIMIT)
            self.assertEqual((p.returncode, p.stderr), (0, b""), page)
            lines = p.stdout.decode().splitlines()
            self.assertGreater(len(lines), 50)
            self.assertEqual([line for line in lines if len(line) > 80], [], page)

    @needs(shutil.which("groff"), "groff")
    def test_groff(self):
        for page in PAGES:
            self.assertEqual(run("groff", "-man", "-ww", "-z", os.path.join(MAN, page)),
                             (0, "", ""), page)

    @needs(shutil.which("mandoc"), "mandoc")
    def test_mandoc(self):
        for page in PAGES:
            self.assertEqual(run("mandoc", "-T", "lint", os.path.join(MAN, page)), (0, "", ""),
                             page)


# ---- shells ----

class Place:
    """A folder with what is to be found in it, a user's Python that runs, and its pid."""

    def __init__(self, later):
        self.dir = tempfile.mkdtemp(prefix="gt-manual-")
        later(shutil.rmtree, self.dir)
        os.makedirs(os.path.join(self.dir, "work", "folder"))
        for name in ("a.gil", "b.gil", "other.txt"):
            open(os.path.join(self.dir, "work", name), "w").close()
        self.work = os.path.join(self.dir, "work")
        # Its name is that of a Python whatever the one that runs this is called.
        python = os.path.join(self.dir, "python3.99")
        os.symlink(os.path.realpath(sys.executable), python)
        self.python = subprocess.Popen([python, "-c", "input()"], stdin=subprocess.PIPE)
        other = os.path.join(self.dir, "sleeper")
        shutil.copy(shutil.which("sleep"), other)
        self.other = subprocess.Popen([other, "600"])
        later(self.python.stdin.close)
        for p in (self.python, self.other):
            later(p.wait)
            later(p.kill)


BASH = r"""
. "$1"
shift
loader=$(complete -p -D)
loader=${loader##*-F }
compopt() { :; }  # the shell has it only while it completes
"${loader%% *}" "$1"
[ $? -eq 124 ] || { echo "the loader does not find $1" >&2; exit 1; }
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
COMP_LINE=$LINE
COMP_POINT=${#LINE}
COMP_TYPE=9 COMP_KEY=9
call=$(complete -p "$1")
call=${call##*-F }
"${call%% *}" "$1" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
printf '%s\n' "${COMPREPLY[@]}"
"""


class Bash:
    def __init__(self, place, _):
        self.place = place
        target = os.path.join(place.dir, "completions")
        os.mkdir(target)
        for name in PROGRAMS:
            shutil.copy(os.path.join(COMPLETION, name + ".bash"), os.path.join(target, name))

    def __call__(self, line):
        # As the shell cuts it: "=" is a word of its own.
        words = [w for word in line.split(" ") for w in re.split(r"(=)", word) if w or not word]
        if line.endswith("="):
            words.append("")
        p = subprocess.run(["bash", "--norc", "--noprofile", "-c", BASH, "bash", BASH_COMPLETION]
                           + words,
                           env=dict(os.environ, BASH_COMPLETION_USER_DIR=self.place.dir, LINE=line),
                           cwd=self.place.work, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                           timeout=LIMIT)
        if p.stderr or p.returncode:
            raise AssertionError("bash: %s: %s" % (line, p.stderr.decode()))
        return set(p.stdout.decode().split("\n")) - {""}


ZSHRC = r"""
fpath=("$COMPLETIONS" $fpath)
autoload -Uz compinit
compinit -u -D
unsetopt auto_list auto_menu beep
PROMPT=
zstyle ':completion:*' users alice bob
# What is found goes to the test, and then its own way.
compadd() {
	local -a found suffix
	zparseopts -E -a ignored O:=into A:=into D:=into
	if (($#into)); then
		builtin compadd "$@"
		return
	fi
	builtin compadd -A found "$@"
	local s=
	[[ " $* " == *" -"[a-zA-Z]#"S= "* || " $* " == *" -S = "* ]] && s='='
	(($#found)) && print -rlu $CAPTURE -- ${^found}$s
	builtin compadd "$@"
}
told() { print -ru $CAPTURE -- $'\4'; comppostfuncs=(told) }
comppostfuncs=(told)
tell-ready() { print -ru $CAPTURE -- $'\4'; zle -D zle-line-init }
zle -N zle-line-init tell-ready
"""


class Zsh:
    """An interactive one at a terminal."""

    def __init__(self, place, later):
        self.place = place
        folder = os.path.join(place.dir, "zsh")
        os.mkdir(folder)
        with open(os.path.join(folder, ".zshrc"), "w") as f:
            f.write(ZSHRC)
        self.reader, writer = os.pipe()
        os.set_inheritable(writer, True)
        self.pid, self.terminal = pty.fork()
        if not self.pid:
            try:
                os.chdir(place.work)
                os.execvpe("zsh", ["zsh", "-i"],
                           dict(os.environ, ZDOTDIR=folder, CAPTURE=str(writer), TERM="dumb",
                                COMPLETIONS=COMPLETION))
            finally:
                os._exit(127)
        os.close(writer)
        later(self.end)
        self.answer()

    def end(self):
        os.close(self.terminal)
        os.close(self.reader)
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)

    def answer(self):
        """All up to the sign that it is done; the terminal is read, too, or zsh would stop."""
        got, seen = b"", b""
        while not got.endswith(b"\4\n"):
            ready = select.select([self.reader, self.terminal], [], [], LIMIT)[0]
            if self.terminal in ready:
                seen += os.read(self.terminal, 4096)
            if self.reader in ready:
                got += os.read(self.reader, 4096)
            if not ready:
                raise AssertionError("zsh does not answer: %r %r" % (got, seen))
        return set(got.decode().split("\n")) - {"\4", ""}

    def __call__(self, line):
        os.write(self.terminal, b"\x15" + line.encode() + b"\t")
        return self.answer()


class Completion:
    """Of both shells; self.ask(line) are the words that may stand at its end."""

    @classmethod
    def setUpClass(cls):
        cls.after = contextlib.ExitStack()
        cls.place = Place(cls.after.callback)
        cls.ask = cls.shell(cls.place, cls.after.callback)

    @classmethod
    def tearDownClass(cls):
        cls.after.close()

    def wanted(self, program):
        out = set()
        for short, long_name, value in map(names_of, help_options(program)):
            out |= {short or "-?", long_name + (value if value == "=" else "")}
        return out

    def test_options(self):
        for program in PROGRAMS:
            found = {w for start in ("-", "--") for w in self.ask("%s %s" % (program, start))}
            found.discard("-")  # zsh: there may be an argument that begins so
            self.assertEqual(sorted(map(self.name, found)),
                             sorted(map(self.name, self.wanted(program))))
            self.assertEqual({self.name(w) for w in self.ask("%s --ver" % program)},
                             {"--verbose", "--version"})

    def test_values(self):
        n = 0
        for program in PROGRAMS:
            for short, long_name, value in map(names_of, help_options(program)):
                want = values_of(program, long_name) if value else []
                if want:
                    self.assertEqual(self.ask("%s %s=" % (program, long_name)), set(want))
                    self.assertEqual(self.ask("%s %s=%s" % (program, long_name, want[-1][:3])),
                                     {want[-1]})
                    n += 1
        self.assertGreaterEqual(n, 7)

    def test_processes(self):
        pid = str(self.place.python.pid)
        for line in ("giltrace -p ", "giltrace --pid=", "giltrace -p %s" % pid[:-1]):
            found = self.ask(line)
            self.assertIn(pid, found)
            self.assertNotIn(str(self.place.other.pid), found)
        self.assertEqual(self.last(self.ask("giltrace -p 1,%s" % pid)), {pid})

    def test_files(self):
        here = {"a.gil", "b.gil", "folder"}
        for line in ("gil2trace ", "gil2trace a.gil ", "gil2trace -i ", "gil2trace --input="):
            self.assertEqual({w.rstrip("/") for w in self.ask(line)} & (here | {"other.txt"}), here,
                             line)
        self.assertEqual({w.rstrip("/") for w in self.ask("giltrace -o ")}, {"folder"})
        self.assertEqual({w.rstrip("/") for w in self.ask("giltrace --output-dir=")}, {"folder"})
        self.assertLessEqual({"folder", "other.txt"},
                             {w.rstrip("/") for w in self.ask("gil2trace --profiler=")})

    def test_command(self):
        self.assertIn("unshare", self.ask("giltrace --follow -- unsh"))
        self.assertEqual(self.ask("giltrace --tell=7 re"), {"resume"})

    @staticmethod
    def name(word):
        return word

    @staticmethod
    def last(words):
        return {w.split(",")[-1] for w in words}


@needs(os.path.exists(BASH_COMPLETION), "bash-completion")
class InBash(Completion, unittest.TestCase):
    shell = Bash

    def test_users(self):
        self.assertIn("root", self.ask("giltrace --user="))


@needs(shutil.which("zsh"), "zsh")
class InZsh(Completion, unittest.TestCase):
    shell = Zsh

    @staticmethod
    def name(word):
        """The "=" comes behind optional arguments as well, and what globs is quoted."""
        return word.rstrip("=").replace("\\", "")

    def test_users(self):
        self.assertEqual(self.ask("giltrace --user="), {"alice", "bob"})


if __name__ == "__main__":
    PROGRAMS = dict(zip(("giltrace", "gil2trace"), map(os.path.abspath, sys.argv[1:3])))
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], verbosity=2)
