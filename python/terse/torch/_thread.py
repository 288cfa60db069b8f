"""The communication thread of a State or of an optimizer."""

import queue
import threading
import weakref
from typing import Any, Optional, Tuple

_PATIENCE = 5.0  # seconds for the thread to end


def start(owner: Any, items: "queue.Queue[Any]") -> Tuple[threading.Thread, Any]:
    """A thread that calls owner._serve for every item, in the order of the queue. It ends with its
    owner, or when the second value is called, which waits for what is in the queue."""
    thread = threading.Thread(target=_communicate, args=(weakref.ref(owner), items), name="terse",
                              daemon=True)
    thread.start()
    return thread, weakref.finalize(owner, _stop, items, thread)


def ended(thread: Optional[threading.Thread], end: Any) -> bool:
    """Ends what `start` returned. False: the thread is still inside a call, which may wait for other
    ranks until the timeout; nothing that it uses may end before."""
    if thread is None:
        return True
    end()
    return not thread.is_alive()


def _communicate(owner_of: Any, items: "queue.Queue[Any]") -> None:
    while True:
        item = items.get()
        owner = owner_of() if item is not None else None
        if owner is not None:
            owner._serve(item)
        ended = item is None
        del owner, item  # nothing is kept while the thread waits
        items.task_done()
        if ended:
            return


def _stop(items: "queue.Queue[Any]", thread: threading.Thread) -> None:
    items.put(None)
    if thread is not threading.current_thread():  # which may drop the last reference to the owner
        thread.join(_PATIENCE)
