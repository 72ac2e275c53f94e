"""Stop signals wait for a good moment, unless they may not."""

import os
import signal
import threading

import pytest

from headwise.errors import Stopped
from headwise.training.signals import (
    SIGNALS,
    Interrupted,
    StopSignals,
    stopping_at_once,
)


def send(number):
    os.kill(os.getpid(), number)


@pytest.fixture(autouse=True)
def handlers_are_put_back():
    before = [signal.getsignal(each) for each in SIGNALS]
    yield
    after = [signal.getsignal(each) for each in SIGNALS]
    for each, handler in zip(SIGNALS, before, strict=True):
        signal.signal(each, handler)
    assert after == before


def test_without_a_signal_nothing_is_raised():
    with StopSignals() as signals:
        signals.check()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_stop_waits_until_it_is_asked_about_and_is_named(number):
    with StopSignals() as signals:
        send(number)
        done = "work goes on"
        with pytest.raises(Stopped, match=number.name):
            signals.check()

    assert done


def test_an_interruption_waits_too_and_remains_a_keyboard_interrupt():
    with StopSignals() as signals:
        send(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt, match="everything is saved") as caught:
            signals.check()

    assert caught.type is Interrupted


def test_the_impatient_press_it_twice():
    with StopSignals() as signals:
        send(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt) as caught:
            send(signal.SIGINT)
        assert caught.type is KeyboardInterrupt
        signals.received = None


def test_a_signal_is_raised_once():
    with StopSignals() as signals:
        send(signal.SIGTERM)
        with pytest.raises(Stopped):
            signals.check()
        signals.check()


def test_a_signal_during_the_last_piece_of_work_is_not_forgotten():
    """It came after the last question; what follows training must not start."""
    with pytest.raises(Stopped), StopSignals():
        send(signal.SIGTERM)


def test_an_error_is_not_covered_by_a_signal():
    def fail():
        send(signal.SIGTERM)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), StopSignals():
        fail()


def test_what_is_ignored_stays_ignored():
    """As nohup has it for SIGHUP, and shells for SIGINT of what runs behind."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with StopSignals() as signals:
            send(signal.SIGHUP)
            signals.check()
    finally:
        signal.signal(signal.SIGHUP, before)


def test_another_thread_leaves_the_handlers_alone():
    found = []

    def work():
        with StopSignals(), stopping_at_once():
            found.append([signal.getsignal(each) for each in SIGNALS])

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()

    assert found == [[signal.getsignal(each) for each in SIGNALS]]


def test_where_nothing_asks_sigterm_stops_at_once():
    with pytest.raises(Stopped, match="SIGTERM"), stopping_at_once():
        send(signal.SIGTERM)


def test_stop_signals_ask_for_patience_inside():
    with stopping_at_once(), StopSignals() as signals:
        send(signal.SIGTERM)
        assert signals.received == signal.SIGTERM
        signals.received = None
