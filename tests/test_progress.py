"""How far a long job is: a bar on a terminal, one line per minute elsewhere, with the time left."""

import io
import sys
import threading
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from rich.console import Console

from marcir import progress
from marcir.progress import track
from marcir.training.checkpoint import Progress
from marcir.training.reporter import Reporter


class Clock:
    """A clock that moves only when it is told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    # Not in the module `time` itself: event loops of other threads wait by it.
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=found))
    return found


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Console:
    """A terminal whose text is recorded."""
    console = Console(file=io.StringIO(), force_terminal=True, width=120, record=True, _environ={})
    monkeypatch.setattr(progress, "_terminal", lambda: console)
    return console


def lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().err.splitlines()


# ---- Lines ---------------------------------------------------------------------------------------


def test_a_long_job_prints_one_line_per_minute(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in track(range(4000), 4000, "embedding"):
        clock.now += 0.0625  # 250 seconds in all
    assert lines(capsys) == [
        "embedding: 960 of 4,000, 3 min left",
        "embedding: 1,920 of 4,000, 2 min left",
        "embedding: 2,880 of 4,000, 70 s left",
        "embedding: 3,840 of 4,000, 10 s left",
    ]


def test_a_job_of_under_a_minute_prints_nothing(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    assert list(track(range(3), 3, "embedding")) == [0, 1, 2]
    for _ in track(range(100), 100, "embedding"):
        clock.now += 0.59
    assert lines(capsys) == []


def test_the_last_item_prints_no_line(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in track(range(2), 2, "embedding"):
        clock.now += 90
    assert lines(capsys) == ["embedding: 1 of 2, 90 s left"]


def test_time_spent_on_making_an_item_counts_too(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    def slow() -> Iterator[int]:
        for item in range(3):
            clock.now += 100
            yield item

    assert list(track(slow(), 3, "drawing")) == [0, 1, 2]
    assert lines(capsys) == ["drawing: 1 of 3, 3 min left", "drawing: 2 of 3, 2 min left"]


def test_items_may_count_for_several_and_some_may_be_done(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in track([100, 100, 50], 1250, "embedding", done=1000, size=lambda images: images):
        clock.now += 60
    # What was done before says nothing about the pace: 100 images per minute.
    assert lines(capsys) == ["embedding: 1,100 of 1,250, 90 s left", "embedding: 1,200 of 1,250, 30 s left"]


def test_a_job_with_more_items_than_announced_goes_on(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in track(range(4), 2, "ranking"):
        clock.now += 70
    assert lines(capsys) == ["ranking: 1 of 2, 70 s left"]


def test_jobs_in_several_threads_do_not_disturb_each_other(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    finished: list[list[int]] = []
    threads = [
        threading.Thread(target=lambda: finished.append(list(track(range(1000), 1000, "embedding"))))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert finished == [list(range(1000))] * 4
    assert lines(capsys) == []


def test_an_error_in_the_job_is_passed_on(clock: Clock) -> None:
    with pytest.raises(ZeroDivisionError):
        [1 / item for item in track([0], 1, "dividing")]


# ---- Bars ----------------------------------------------------------------------------------------


def test_the_bar_shows_the_time_left_after_the_first_item(clock: Clock, terminal: Console) -> None:
    for item in track(range(5), 5, "embedding"):
        clock.now += 300
        if item == 1:  # one is finished, and half of the next one's time has passed
            clock.now -= 150
            break
    shown = terminal.export_text()
    assert "embedding" in shown
    assert "0 of 5" in shown
    assert "1 of 5, 18 min left" in shown  # 4 x 5 minutes, of which 2.5 have passed


def test_without_a_finished_item_the_bar_shows_no_time_left(clock: Clock, terminal: Console) -> None:
    for _ in track(range(5), 5, "embedding"):
        clock.now += 300
        break
    shown = terminal.export_text()
    assert "0 of 5" in shown
    assert "left" not in shown
    assert "-:--:--" not in shown


def test_on_a_terminal_there_are_no_lines(
    clock: Clock, terminal: Console, capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in track(range(5), 5, "embedding"):
        clock.now += 300
    assert lines(capsys) == []
    assert "5 of 5" in terminal.export_text()


def test_a_terminal_that_cannot_move_its_cursor_gets_lines(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "dumb")
    for _ in track(range(2), 2, "embedding"):
        clock.now += 90
    assert lines(capsys) == ["embedding: 1 of 2, 90 s left"]


def test_a_terminal_without_rich_gets_lines(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setitem(sys.modules, "rich.console", None)
    for _ in track(range(2), 2, "embedding"):
        clock.now += 90
    assert lines(capsys) == ["embedding: 1 of 2, 90 s left"]


# ---- Training ------------------------------------------------------------------------------------


def test_the_training_bar_shows_loss_and_speed_only_once_they_are_known(
    clock: Clock, terminal: Console
) -> None:
    with Reporter(30, enabled=True).steps(Progress(), 75):
        pass
    shown = terminal.export_text()
    assert "epoch 1/30" in shown
    assert "0 of 75" in shown
    for unknown in ("nan", "loss", "images/s", "ends in", "-:--:--"):
        assert unknown not in shown


def test_the_training_bar_shows_the_time_left_after_the_first_batch(clock: Clock, terminal: Console) -> None:
    with Reporter(30, enabled=True).steps(Progress(epoch=1), 75) as update:
        clock.now += 30
        update(1.2345, 4.26)
    shown = terminal.export_text()
    assert "epoch 2/30" in shown
    assert "1 of 75, loss 1.234, 4.3 images/s, epoch ends in 37 min" in shown
    assert "nan" not in shown


def test_a_resumed_epoch_shows_its_loss_from_the_start(clock: Clock, terminal: Console) -> None:
    with Reporter(30, enabled=True).steps(Progress(step=10, loss_sum=25.0), 75):
        pass
    shown = terminal.export_text()
    assert "10 of 75, loss 2.500" in shown
    assert "images/s" not in shown


def test_a_long_epoch_prints_one_line_per_minute(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    with Reporter(30, enabled=True).steps(Progress(step=10, loss_sum=25.0), 20) as update:
        for _ in range(10):
            clock.now += 30
            update(2.0, 0.25)
    assert lines(capsys) == [
        "epoch 1/30: 12 of 20, loss 2.000, 0.25 images/s, epoch ends in 4 min",
        "epoch 1/30: 14 of 20, loss 2.000, 0.25 images/s, epoch ends in 3 min",
        "epoch 1/30: 16 of 20, loss 2.000, 0.25 images/s, epoch ends in 2 min",
        "epoch 1/30: 18 of 20, loss 2.000, 0.25 images/s, epoch ends in 60 s",
    ]


def test_a_short_epoch_and_a_process_that_is_not_the_first_print_nothing(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    for enabled, seconds in ((True, 1), (False, 300)):
        with Reporter(30, enabled).steps(Progress(), 20) as update:
            for _ in range(20):
                clock.now += seconds
                update(2.0, 56.0)
    assert lines(capsys) == []


@pytest.mark.parametrize(("speed", "text"), [(560.4, "560"), (56.4, "56"), (4.26, "4.3"), (0.0456, "0.046")])
def test_slow_training_is_not_shown_as_no_images_per_second(
    speed: float, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    finished = Progress(epoch=1, seconds=10, history=[{"loss": 1.0, "images_per_second": speed}])
    Reporter(2, enabled=True).epoch(finished, better=False)
    assert lines(capsys) == [f"epoch 1/2  loss 1.0000  {text} images/s  10 s left"]
