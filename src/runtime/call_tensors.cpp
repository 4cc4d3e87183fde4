#include "runtime/call_tensors.h"

#include "base/error.h"
#include "runtime/run_blocks.h"
#include "runtime/strided.h"

namespace ingot::runtime {

CallTensors::CallTensors(const LoadedFunction& loaded, Allocator& host)
    : loaded_(loaded), host_(host), on_device_(loaded.backend->memory() != nullptr), gathered_(loaded.function->bindings.size()), staged_(loaded.function->bindings.size()) {}

std::byte* CallTensors::take(size_t b, const HostTensor& t, bool filled, backend::Stream& stream) {
  auto* data = static_cast<std::byte*>(t.data);
  const plan::Binding& of = binding(b);
  const bool plain = is_dense_in(of.order, t);
  if (plain && !on_device_) return data;
  const size_t bytes = bytes_of(t);
  const bool reached = loaded_.backend->can_access(data);
  if ((reached && plain) || bytes == 0) return data;
  if (reached && on_device_) throw wrong_order(fmt::format("\"{}\"", of.name), of.order);
  if (!plain) {
    grow(gathered_[b], bytes, host_, of.name);
    copy_strided(t, of.order, gathered_[b].data(), true);
    data = gathered_[b].data();
  }
  if (!on_device_) return data;
  std::byte* const to = on_device(b, bytes);
  if (filled) {
    stream.copy(to, data, bytes);
    reads_host_ = true;
  }
  return to;
}

bool CallTensors::give(size_t b, const HostTensor& t, backend::Stream& stream) {
  const size_t bytes = bytes_of(t);
  if (bytes == 0) return false;
  if (!on_device_) return true;
  if (loaded_.backend->can_access(t.data)) return false;
  stream.copy(is_dense_in(binding(b).order, t) ? static_cast<std::byte*>(t.data) : gathered_[b].data(), staged_[b].data(), bytes);
  return true;
}

void CallTensors::scatter(size_t b, const HostTensor& t) {
  const std::vector<uint8_t>& order = binding(b).order;
  if (!is_dense_in(order, t) && !(on_device_ && loaded_.backend->can_access(t.data))) copy_strided(t, order, gathered_[b].data(), false);
}

bool CallTensors::needs_copy(const std::byte* data, size_t bytes) const { return on_device_ && data != nullptr && bytes != 0 && !loaded_.backend->can_access(data); }

std::byte* CallTensors::on_device(size_t b, size_t bytes) {
  grow(staged_[b], bytes, *loaded_.backend->memory(), binding(b).name);
  return staged_[b].data();
}

void CallTensors::free() noexcept {
  for (auto* copies : {&gathered_, &staged_}) {
    for (MemoryBlock& block : *copies) block = MemoryBlock();
  }
}

}  // namespace ingot::runtime
