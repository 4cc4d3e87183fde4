// The caller's tensors of one call, where kernels access them: in place, or in copies.
#pragma once
#include <vector>

#include "runtime/program.h"

namespace ingot::runtime {

// A tensor whose layout the plan cannot read has a dense copy on the host. For a GPU a tensor on the host has a copy on the device. The copies' memory is kept between calls.
class CallTensors {
 public:
  CallTensors(const LoadedFunction&, Allocator& host);
  void begin() { reads_host_ = false; }
  // The address of the binding's elements in the binding's axis order: the tensor itself, or a copy (`filled`: with the tensor's elements).
  std::byte* take(size_t binding, const HostTensor&, bool filled, backend::Stream&);
  // True if the stream copies from the caller's host memory in this call.
  bool reads_host() const { return reads_host_; }
  // Copies results from the device back to the host. True if the results end in host memory.
  bool give(size_t binding, const HostTensor&, backend::Stream&);
  // Copies a dense result into the caller's strided tensor.
  void scatter(size_t binding, const HostTensor&);
  // True if kernels cannot write these bytes of the caller's, so that they write on_device() and a copy follows.
  bool needs_copy(const std::byte* data, size_t bytes) const;
  std::byte* on_device(size_t binding, size_t bytes);
  void free() noexcept;

 private:
  const plan::Binding& binding(size_t i) const { return loaded_.function->bindings[i]; }

  const LoadedFunction& loaded_;
  Allocator& host_;
  const bool on_device_;               // kernels access other memory than the host's
  std::vector<MemoryBlock> gathered_;  // host copies
  std::vector<MemoryBlock> staged_;    // device copies
  bool reads_host_ = false;
};

}  // namespace ingot::runtime
