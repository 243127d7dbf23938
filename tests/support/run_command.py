# SPDX-License-Identifier: Apache-2.0
"""Commands that scripts of the tests run."""
import subprocess


def checked(done, code):
    """Any status is right where `code` is None."""
    if code is not None and done.returncode != code:
        raise AssertionError(f"{' '.join(done.args)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done


def run(*command, code=0, **how):
    """What it wrote, and its status, which has to be `code`. `how` is subprocess.run's: cwd, env."""
    return checked(subprocess.run([str(word) for word in command], capture_output=True, text=True, **how), code)
