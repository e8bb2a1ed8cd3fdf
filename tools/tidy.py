"""Runs clang-tidy, which is slow, on the files that deserve it.

By default these are the changed files: changed since the branch left origin/main or, on main
itself, since a day before the last commit; MEZZO_LINT_BASE names another commit to compare with. A
changed header is checked through one source that includes it. A file found clean is not checked
again until it, one of the project's headers that it includes, its compile command or the
configuration changes. CUDA sources are left to nvcc: clang of another age cannot read the
toolkit's headers.
"""
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import subprocess

BUILD = pathlib.Path("build/lint")
CLEAN = BUILD / "clean"
# The most files checked without --all, most recently changed first: a few minutes on two cores.
MOST_CHANGED_FILES = 16
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)


def git(*arguments):
    """The output lines of a git command, or None if it fails."""
    done = subprocess.run(["git", *arguments], capture_output=True, text=True, check=False)
    return done.stdout.split("\n")[:-1] if done.returncode == 0 else None


def base_commit():
    """The commit to compare with, or None for everything."""
    if named := os.environ.get("MEZZO_LINT_BASE"):
        return named
    head = git("rev-parse", "HEAD")
    fork = git("merge-base", "origin/main", "HEAD")
    if fork and fork != head:
        return fork[0]
    seconds = git("log", "-1", "--format=%ct")
    if not seconds:
        return None
    earlier = git("rev-list", "-1", f"--before={int(seconds[0]) - 24 * 3600}", "HEAD")
    return earlier[0] if earlier else None


def changed_files(base):
    """The files changed since a commit, in the working tree too, most recently changed first."""
    pending = git("diff", "--name-only", "HEAD") or []
    committed = git("log", "--format=", "--name-only", f"{base}..HEAD" if base else "HEAD")
    if committed is None:
        raise SystemExit(f"tidy.py: git knows no commit '{base}'")
    return list(dict.fromkeys(name for name in pending + committed if name))


class Sources:
    """The compiled sources of the project and the project's headers that each includes."""

    def __init__(self):
        root = pathlib.Path.cwd()
        tracked = set(git("ls-files") or [])
        self.commands = {}
        for entry in json.loads((BUILD / "compile_commands.json").read_text(encoding="utf-8")):
            path = pathlib.Path(entry["directory"], entry["file"]).resolve()
            if path.suffix == ".cu":
                continue
            if path.is_relative_to(root) and path.relative_to(root).as_posix() in tracked:
                self.commands[path.relative_to(root).as_posix()] = entry["command"]
        self._direct = {}

    def _direct_includes(self, name):
        if name not in self._direct:
            text = pathlib.Path(name).read_text(encoding="utf-8")
            folder = pathlib.Path(name).parent
            found = []
            for included in INCLUDE.findall(text):
                for candidate in (pathlib.Path(included), folder / included):
                    if candidate.is_file():
                        found.append(candidate.as_posix())
                        break
            self._direct[name] = found
        return self._direct[name]

    def includes(self, name):
        """The file itself and all headers of the project that it includes, directly or indirectly."""
        seen, waiting = set(), [name]
        while waiting:
            current = waiting.pop()
            if current not in seen:
                seen.add(current)
                waiting += self._direct_includes(current)
        return seen

    def showing(self, name):
        """The source through which a file is checked: itself, its own source, or one that includes it."""
        beside = str(pathlib.Path(name).with_suffix(".cpp"))
        for candidate in (name, beside):
            if candidate in self.commands:
                return candidate
        if not name.endswith(".h"):
            return None
        return next((source for source in sorted(self.commands) if name in self.includes(source)),
                    None)


def selected(sources, everything):
    if everything:
        return sorted(sources.commands)
    wanted = [sources.showing(name) for name in changed_files(base_commit())
              if pathlib.Path(name).is_file()]
    return list(dict.fromkeys(name for name in wanted if name))


def configurations():
    return [name for name in git("ls-files") or [] if pathlib.Path(name).name == ".clang-tidy"]


def clean_mark(sources, name):
    """The file whose presence means that this source, exactly as it is now, was found clean."""
    digest = hashlib.sha256(sources.commands[name].encode())
    for part in sorted({*sources.includes(name), *configurations(), "tools/tidy.py"}):
        digest.update(part.encode() + b"\0" + pathlib.Path(part).read_bytes() + b"\0")
    return CLEAN / digest.hexdigest()


def tidy_command(name):
    return [
        "clang-tidy", "-p", str(BUILD), "--quiet",
        "--extra-arg=-DHWY_COMPILE_ONLY_STATIC",  # one Highway target instead of all
        "--extra-arg=-Wno-unknown-warning-option",
        "--extra-arg=-Wno-unused-command-line-argument",  # options that only gcc has
        name,
    ]


def tidy_one(sources, name):
    """The findings in one source as text, empty when it is clean."""
    mark = clean_mark(sources, name)
    if mark.exists():
        return ""
    done = subprocess.run(tidy_command(name), capture_output=True, text=True, check=False)
    if done.returncode == 0 and not done.stdout.strip():
        mark.touch()
        return ""
    return done.stdout.strip() or done.stderr.strip()


def faults(everything):
    """Yields findings; configures the build folder that holds the compile commands first."""
    done = subprocess.run(["cmake", "--preset", "lint"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        yield done.stdout + done.stderr
        return
    CLEAN.mkdir(exist_ok=True)
    sources = Sources()
    names = selected(sources, everything)
    if not everything and len(names) > MOST_CHANGED_FILES:
        print(f"tidy: {len(names)} sources to check, taking the {MOST_CHANGED_FILES} most recently "
              "changed; ./run lint --all takes all")
        names = names[:MOST_CHANGED_FILES]
    print(f"tidy: {len(names)} of {len(sources.commands)} sources", flush=True)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for findings in pool.map(lambda name: tidy_one(sources, name), names):
            if findings:
                yield findings
