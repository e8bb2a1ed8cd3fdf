"""Runs the commands of tools/gpu_check within a time limit, and prints a table of the results."""
import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
SHOWN = 1500  # characters of a failed command's output; the log has all of it


class Checks:
    """Runs commands within the remaining time, and prints a row for each as soon as it is done, so that stopping this
    program early keeps the results so far."""

    def __init__(self, minutes, environment, log):
        self.end = time.monotonic() + 60 * minutes
        self.environment = environment
        self.log = log
        self.rows = []
        self.failed = self.missed = False

    def run(self, name, command, most_s, environment=None, row=True, counts=True):
        """Returns the command's output, or None if it failed; makes a row in either case."""
        return self.run_all(name, [(command, environment)], most_s, row, counts)

    def run_mezzo(self, name, command, most_s, environment=None, row=True):
        """Like run(), for programs that are linked with the libraries that the build found."""
        return self.run(name, command, most_s, {**self.environment, **(environment or {})}, row)

    def run_all(self, name, commands, most_s, row=True, counts=True):
        """Like run(), for several commands at the same time: [(command, environment)]."""
        fail = self.fail if counts else self.row
        left = min(most_s, self.end - time.monotonic())
        if left <= 0:
            return fail(name, "no time left")
        print(f"gpu_check: {name}", file=sys.stderr, flush=True)
        start = time.monotonic()
        ended = run_groups(commands, left)
        seconds = time.monotonic() - start
        for (command, _), (_, output) in zip(commands, ended):
            self.log.write(f"== {name}: {' '.join(command)[:300]}\n{output}\n")
        self.log.flush()
        bad = [(status, output) for status, output in ended if status != 0]
        if not bad:
            if row:
                self.row(name, f"passed in {seconds:.0f} s")
            return "\n".join(output for _, output in ended)
        status, output = bad[0]
        print(output[-SHOWN:], file=sys.stderr, flush=True)
        return fail(name, f"not done after {left:.0f} s" if status is None else f"FAILED ({status}) in {seconds:.0f} s")

    def fail(self, name, result):
        self.failed = True
        self.row(name, result)

    def miss(self, name, result):
        """Adds a row for a missed target."""
        self.missed = True
        self.row(name, result)

    def row(self, name, result):
        self.rows.append(f"{name:52}  {result}")
        print(self.rows[-1], flush=True)

    def part(self, name, use):
        """Returns the result of a part of the checks; an exception becomes a row, and the next part continues."""
        try:
            return use()
        except (OSError, ValueError, LookupError, StopIteration, subprocess.SubprocessError) as error:
            return self.fail(name, f"FAILED: {type(error).__name__}: {error}")


def run_groups(commands, most_s):
    """Runs commands at the same time. Returns for each its exit status, None if it took too long, and its output. The
    processes that it started end with it: a compiler that outlives its build would slow down the next measurement."""
    end = time.monotonic() + most_s
    with contextlib.ExitStack() as stack:
        # Files instead of pipes: nobody has to read while others are waited for, and nothing can
        # hold them open.
        outputs = [stack.enter_context(tempfile.TemporaryFile("w+", errors="replace")) for _ in commands]
        children = []
        for (command, environment), output in zip(commands, outputs):
            children.append(subprocess.Popen(command, cwd=ROOT, start_new_session=True, stdout=output,
                                             stderr=subprocess.STDOUT, env={**os.environ, **(environment or {})}))
            stack.callback(kill_group, children[-1])
        return [(wait(child, end), read(output)) for child, output in zip(children, outputs)]


def run_group(command, most_s):
    return run_groups([(command, None)], most_s)[0]


def wait(child, end):
    try:
        return child.wait(max(0.1, end - time.monotonic()))
    except subprocess.TimeoutExpired:
        kill_group(child)
        return None


def read(output):
    output.seek(0)
    return output.read()


def kill_group(child):
    """Sends SIGTERM first: Ninja's jobs are in groups of their own, and it ends them if it is asked to end."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGTERM)
        end = time.monotonic() + 10
        while time.monotonic() < end:
            child.poll()
            os.killpg(child.pid, 0)  # fails once the group is empty
            time.sleep(0.05)
        os.killpg(child.pid, signal.SIGKILL)
