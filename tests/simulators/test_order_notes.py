"""A race that cannot change a value is a note, not a finding."""

import pytest
from both_engines import agree, kernel

#: Thread 0 and thread 32 store one after the other.
TWICE = """
    setp.eq.u32 %p0, %r1, 0; setp.eq.u32 %p1, %r1, 32; mov.u32 %r8, SECOND; @%p0 st.global.u32 [%d1], 7;
    @%p1 st.global.u32 [%d1], %r8;
"""


@pytest.mark.parametrize(("second", "notes"), [(7, 1), (8, 0)])
def test_a_race_of_equal_values_is_a_note(second: int, notes: int) -> None:
    report = agree(kernel(TWICE.replace("SECOND", str(second))), threads=64, blocks=1)
    assert [note.count for note in report.notes if "a write of the same value" in note.message] == [1] * notes
    assert len(report.findings) == 1 - notes
