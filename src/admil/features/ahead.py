"""Work that threads do before it is asked for, in order and within bounds."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Condition
from typing import Generic, TypeVar

__all__ = ["ReadAhead"]

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


class ReadAhead(Generic[_Item, _Result]):
    """Does one kind of work on the items of many lists, in threads and ahead of whoever takes the results.

    While lists are taken one after the other, those that follow are opened early, each time one more of them; a list
    that is passed over ends that, so that little is done in vain where few are wanted.

    Args:
        lists: how many lists there are.
        items: returns the items of a list by its number; an error of it is raised when that list is taken.
        work: what is done to an item.
        weight: how heavy a result is.
        threads: how many items are worked on at a time.
        most: results that may wait to be taken, those that are worked on included.
        heaviest: their weight together.  An item that is worked on counts as much as the last one that was done; where
            it proves heavier, the weight can go beyond this by an item for each thread.
    """

    def __init__(
        self,
        lists: int,
        items: Callable[[int], Sequence[_Item]],
        work: Callable[[_Item], _Result],
        weight: Callable[[_Result], int],
        *,
        threads: int,
        most: int,
        heaviest: int,
    ) -> None:
        self._lists, self._items, self._work, self._weigh = lists, items, work, weight
        self._threads, self._most, self._heaviest = threads, most, heaviest
        self._pool = ThreadPoolExecutor(threads)
        self._changed = Condition()
        self._open: deque[_List[_Item, _Result]] = deque()  # the list that is taken, and some that follow it
        self._ahead = 0  # how many may follow it
        self._running = self._waiting = self._weight = self._usual = 0
        self._closed = False

    def take(self, number: int) -> Iterator[tuple[_Item, Future[_Result]]]:
        """Yield the items of a list, in order, each with what the work made of it or raised.

        Args:
            number: of the list; the next one is there soonest.
        """
        with self._changed:
            current = self._turn_to(number)
        if current.error is not None:
            raise current.error
        while (task := self._next_of(current)) is not None:
            yield task.item, task.future

    def close(self) -> None:
        """End the threads; what they have begun is waited for and dropped."""
        with self._changed:
            self._closed = True
        self._pool.shutdown(cancel_futures=True)

    def _turn_to(self, number: int) -> _List[_Item, _Result]:
        """Drop what came before a list and return the list; the lock is held."""
        before = self._open[0].number if self._open else None
        self._ahead = min(self._ahead + 1, self._most) if before is not None and before + 1 == number else 0
        while self._open and (self._open[0].number < number or before == number):
            self._drop(self._open.popleft())
        if not self._open or self._open[0].number != number:
            while self._open:
                self._drop(self._open.pop())
            self._open.append(self._opened(number))
        return self._open[0]

    def _next_of(self, current: _List[_Item, _Result]) -> _Task[_Item, _Result] | None:
        """Wait for the next item of the list that is taken; None at its end."""
        with self._changed:
            self._begin()
            while current.todo or current.begun:
                if current.begun and current.begun[0].done:
                    task = current.begun.popleft()
                    self._forget(task)
                    self._begin()
                    return task
                self._changed.wait()
        return None

    def _begin(self) -> None:
        """Start on as many items as there is room for; the lock is held."""
        while not self._closed and self._has_room():
            found = self._following()
            if found is None:
                return
            task: _Task[_Item, _Result] = _Task(found.todo.popleft())
            found.begun.append(task)
            self._running += 1
            self._pool.submit(self._do, task)

    def _has_room(self) -> bool:
        return (
            self._running < self._threads
            and self._running + self._waiting < self._most
            and self._weight + self._running * self._usual < self._heaviest
        )

    def _following(self) -> _List[_Item, _Result] | None:
        """Return the first list with an item that is not begun."""
        for each in self._open:
            if each.todo:
                return each
        while self._open and len(self._open) <= self._ahead and self._open[-1].number + 1 < self._lists:
            self._open.append(self._opened(self._open[-1].number + 1))
            if self._open[-1].todo:
                return self._open[-1]
        return None

    def _opened(self, number: int) -> _List[_Item, _Result]:
        try:
            return _List(number, deque(self._items(number)))
        except Exception as error:
            return _List(number, deque(), error=error)

    def _do(self, task: _Task[_Item, _Result]) -> None:
        """Work on an item, take note of it and go on, in a thread."""
        weight = 0
        try:
            result = self._work(task.item)
            weight = self._weigh(result)
            task.future.set_result(result)
        except BaseException as error:
            task.future.set_exception(error)
        with self._changed:
            self._running -= 1
            task.done, task.weight = True, weight
            self._usual = weight or self._usual
            if not task.dropped:
                self._waiting += 1
                self._weight += weight
            self._begin()
            self._changed.notify_all()

    def _forget(self, task: _Task[_Item, _Result]) -> None:
        self._waiting -= 1
        self._weight -= task.weight

    def _drop(self, passed: _List[_Item, _Result]) -> None:
        for task in passed.begun:
            task.dropped = True
            if task.done:
                self._forget(task)


@dataclass(eq=False)
class _Task(Generic[_Item, _Result]):
    """An item that was begun."""

    item: _Item
    future: Future[_Result] = field(default_factory=Future)
    weight: int = 0
    done: bool = False
    dropped: bool = False


@dataclass(eq=False)
class _List(Generic[_Item, _Result]):
    """A list that was opened."""

    number: int
    todo: deque[_Item]
    begun: deque[_Task[_Item, _Result]] = field(default_factory=deque)
    error: Exception | None = None
