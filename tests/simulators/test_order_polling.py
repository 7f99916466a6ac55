"""A thread that polls a place takes what was published there once, and everything that changes there again."""

import numpy as np
import pytest

from tileproof.simulators.ptx.device import Device
from tileproof.simulators.ptx.findings import FindingKind, Report
from tileproof.simulators.ptx.machine.order.patterns import Patterns

_HEAD = """.version 8.7
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 work)
{
    .reg .pred %p; .reg .b32 %t, %seen, %x; .reg .b64 %flag;
    ld.param.u64 %flag, [work]; mov.u32 %t, %tid.x; setp.eq.u32 %p, %t, 0;
    @%p bra waits;
"""
#: Thread 32 publishes two words, the second one after thread 0 has read the first.
_HAND_OVER = """
    setp.ne.u32 %p, %t, 32; @%p bra end;
    st.global.u32 [%flag+4], 7; PUBLISH.u32 [%flag], 1;
third: ld.relaxed.gpu.global.u32 %x, [%flag+12]; setp.eq.u32 %p, %x, 0; @%p bra third;
    st.global.u32 [%flag+8], 8; PUBLISH.u32 [%flag], 2;
    bra end;
waits:
first: POLL.u32 %seen, [%flag]; setp.lt.u32 %p, %seen, 1; @%p bra first;
    FENCE ld.global.u32 %x, [%flag+4]; st.relaxed.gpu.global.u32 [%flag+12], 1;
second: POLL.u32 %seen, [%flag]; setp.lt.u32 %p, %seen, 2; @%p bra second;
    FENCE ld.global.u32 %x, [%flag+8];
end: ret;
}
"""
_NEVER = """
    st.release.gpu.global.u32 [%flag], 1; bra end;
waits:
again: ld.acquire.gpu.global.u32 %seen, [%flag]; setp.lt.u32 %p, %seen, 2; @%p bra again;
end: ret;
}
"""
_FORMS = {
    "acquire": ("st.release.gpu.global", "ld.acquire.gpu.global", ""),
    "relaxed and fence": ("st.release.gpu.global", "ld.relaxed.gpu.global", "fence.acq_rel.gpu;"),
}


def launch(text: str, threads: int, schedule: str = "friendly", seed: int = 0) -> Report:
    device = Device(schedule=schedule, seed=seed)
    work = device.upload(np.zeros(4, np.uint32))
    return device.load_ptx(_HEAD + text)["k"].launch(grid=(1, 1, 1), block=(threads, 1, 1), args=(work,))


def hand_over(form: str) -> str:
    publish, poll, fence = _FORMS[form]
    return _HAND_OVER.replace("PUBLISH", publish).replace("POLL", poll).replace("FENCE", fence)


@pytest.mark.parametrize("form", _FORMS)
@pytest.mark.parametrize("seed", range(4))
def test_both_words_are_handed_over(form: str, seed: int) -> None:
    assert launch(hand_over(form), 64, "adversarial", seed).findings == []


@pytest.mark.parametrize("seed", range(4))
def test_a_second_poll_without_its_fence_learns_nothing(seed: int) -> None:
    right = hand_over("relaxed and fence")
    place = right.rindex("fence.acq_rel.gpu;")
    wrong = right[:place] + right[place:].replace("fence.acq_rel.gpu;", "")
    report = launch(wrong, 64, "adversarial", seed)
    assert [finding.kind for finding in report.findings] == [FindingKind.RACE]


def test_a_thread_that_polls_in_vain_takes_what_is_there_once(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = []
    take = Patterns._take

    def counted(*arguments: object) -> None:
        taken.append(arguments)
        take(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Patterns, "_take", counted)
    report = launch(_NEVER, 64)
    assert [finding.kind for finding in report.findings] == [FindingKind.DEADLOCK]
    assert len(taken) == 1
