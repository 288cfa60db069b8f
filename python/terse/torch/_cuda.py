"""Every call of the CUDA API: copies between a device and pinned host memory on a side stream.

Copies of one device are made on one stream, in the order of the calls. Pinned memory makes them
asynchronous: neither backward nor the host waits for them."""

from typing import Any

import torch


class Cuda:
    """The side stream of one CUDA device."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stream: Any = torch.cuda.Stream(device)

    def host(self, count: int, dtype: torch.dtype) -> torch.Tensor:
        """Pinned host memory."""
        return torch.empty(count, dtype=dtype, pin_memory=True)

    def future(self) -> Any:
        """A future of a tensor of this device: who waits for it waits for the copy as well."""
        return torch.futures.Future(devices=[self._device])

    def fetch(self, host: torch.Tensor, buffer: torch.Tensor) -> Any:
        """Copies a buffer to the host once the current stream has filled it. What `wait` takes."""
        self._stream.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(self._stream):
            host.copy_(buffer, non_blocking=True)
            buffer.record_stream(self._stream)
            return self._stream.record_event()

    def wait(self, fetched: Any) -> None:
        """Waits until a copy to the host is complete."""
        fetched.synchronize()

    def put(self, buffer: torch.Tensor, host: torch.Tensor, future: Any) -> None:
        """Copies back, and makes the buffer the value of the future. The future records an event on
        the current stream, hence inside."""
        with torch.cuda.stream(self._stream):
            buffer.copy_(host, non_blocking=True)
            future.set_result(buffer)

    def finish(self) -> None:
        """Waits until all copies are complete."""
        self._stream.synchronize()
