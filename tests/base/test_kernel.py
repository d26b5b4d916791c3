"""What is known of a kernel process from outside."""

import os
import tempfile

from dprepro.base import kernel


def test_last_words_are_the_end_of_what_a_kernel_wrote() -> None:
    with tempfile.TemporaryFile() as streams:
        assert kernel.last_words(streams) == ""
        streams.write(b"1\n2\n\n3\n4\n")
        assert kernel.last_words(streams) == " (its last output: 2 | 3 | 4)"


def test_peak_memory_of_a_process_that_is_gone_is_unknown() -> None:
    assert kernel.peak_memory(2**22 + 1) == 0
    assert kernel.peak_memory(os.getpid()) > 1e6
