"""The last steps of a notebook's run: what it left takes the place of what was there, whole or not at all.

The same for a notebook that ran here (`execute`) and for one that came back from a cluster (`remote`).
"""

import os
import shutil
from contextlib import suppress
from pathlib import Path

from dprepro.base.store import write_atomic
from dprepro.kit.plan import Job


def accept(job: Job, notebook: bytes, results: Path, manifest: str | bytes) -> None:
    """Put a complete run in place.

    Parameters
    ----------
    job : Job
    notebook : bytes
        As executed.
    results : Path
        Folder of its results, beside the place where it belongs (`job.path(".out")`); it is moved there.
    manifest : str or bytes
        JSON. Written last: a run that was killed at any moment has none that fits.

    Raises
    ------
    OSError
        The folder cannot be written; what was there is untouched.
    """
    partial, record, old = (Path(f"{results}-{part}") for part in ("notebook", "manifest", "old"))
    try:
        # All that can meet a full disk comes first; then names change, the manifest's last.
        write_atomic(partial, notebook)
        write_atomic(record, manifest)
        final = job.path(".out")
        if final.exists():
            os.replace(final, old)
        os.replace(results, final)
        os.replace(partial, job.path(".ipynb"))
        os.replace(record, job.path(".manifest.json"))
    finally:
        for left in (partial, record):
            with suppress(OSError):
                left.unlink()
    shutil.rmtree(old, ignore_errors=True)
    job.path(".failed.ipynb").unlink(missing_ok=True)
    job.path(".failed.json").unlink(missing_ok=True)


def keep_failed(job: Job, notebook: bytes, record: str | bytes) -> None:
    """Leave a failed run beside what was there: .failed.ipynb, and .failed.json with what a manifest says."""
    write_atomic(job.path(".failed.ipynb"), notebook)
    write_atomic(job.path(".failed.json"), record)
