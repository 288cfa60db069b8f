"""Buckets of a device pass through host memory: fetched, encoded and decoded on the CPU, put back.

There is one host buffer for each bucket of a step, used again in every step. That is safe without
any further wait: the stream makes its copies in order, so that the fetch of a step follows the copy
back of the step before, and the host writes to a buffer only after its fetch is complete."""

from typing import Any, Callable, Dict, NamedTuple, Tuple

import torch

from ._cuda import Cuda


class Staged(NamedTuple):
    """A bucket of a device and its copy in host memory."""
    device: Any
    buffer: torch.Tensor
    host: torch.Tensor
    fetched: Any

    def wait(self) -> None:
        """The host buffer holds the gradient after it."""
        self.device.wait(self.fetched)

    def deliver(self, value: torch.Tensor, future: Any) -> None:
        """Puts a value in host memory into the bucket and completes the future with it."""
        self.host.copy_(value)
        self.device.put(self.buffer, self.host, future)


class Staging:
    """The host buffers of one State. `make` creates the copying side of a device."""

    def __init__(self, make: Callable[[torch.device], Any] = Cuda) -> None:
        self._make = make
        self._devices: Dict[torch.device, Any] = {}
        self._hosts: Dict[Tuple[torch.device, int], torch.Tensor] = {}

    def fetch(self, index: int, buffer: torch.Tensor) -> Staged:
        """Begins to fetch bucket `index`; called where the bucket was filled, does not wait."""
        device = self._devices.get(buffer.device)
        if device is None:
            device = self._devices[buffer.device] = self._make(buffer.device)
        host = self._hosts.get((buffer.device, index))
        if host is None or host.numel() != buffer.numel() or host.dtype != buffer.dtype:
            device.finish()  # the old buffer may still be copied from
            host = device.host(buffer.numel(), buffer.dtype)
            self._hosts[(buffer.device, index)] = host
        return Staged(device, buffer, host, device.fetch(host, buffer))

    def future_of(self, buffer: torch.Tensor) -> Any:
        return self._devices[buffer.device].future()

    def close(self) -> None:
        """Waits for the copies under way and frees the host buffers."""
        for device in self._devices.values():
            device.finish()
        self._devices, self._hosts = {}, {}
