#include "backend/cuda/kernels/run/launches.h"

#include "base/error.h"

namespace ingot::kernels {

std::string_view wanted_choice(const Call& call, const CudaMachine& machine, std::string_view problem) {
  if (call.trial != nullptr && call.trial->problem == problem) return call.trial->choice;
  if (machine.timed == nullptr) return {};
  const auto found = machine.timed->find(problem);
  return found == machine.timed->end() ? std::string_view() : found->second;
}

bool CudaPlaces::fit(std::span<const TensorRef> operands) const {
  for (size_t i : aligned) {
    if (reinterpret_cast<uintptr_t>(operands[i].data) % 16 != 0) return false;
  }
  for (const auto& [i, k] : behind) {
    if (operands[k].data != operands[i].data + ir::size_of(operands[i].dtype)) return false;
  }
  return true;
}

size_t CudaLaunches::reserve(int64_t bytes) {
  size_t at = scratch;
  scratch += (static_cast<size_t>(bytes) + 255) / 256 * 256;
  return at;
}

void CudaLaunches::add_bytes(std::string kernel, int64_t blocks, uint32_t threads, std::vector<std::byte> parameters, std::vector<CudaLaunch::Pointer> pointers) {
  if (blocks == 0) return;
  if (blocks > INT32_MAX) fail(Code::unsupported, "the step {} needs {} blocks: its tensors are too large for a GPU", kernel, blocks);
  CudaLaunch& l = list.emplace_back();
  l.kernel = std::move(kernel);
  l.blocks = static_cast<uint32_t>(blocks);
  l.threads = threads;
  l.parameters = std::move(parameters);
  l.pointers = std::move(pointers);
}

void JoinedAxes::add(int64_t size, const std::vector<int64_t>& steps) {
  points *= size;
  if (size == 1) return;
  bool joins = !dims.empty();
  for (size_t w = 0; joins && w < strides.size(); ++w) joins = strides[w].back() == steps[w] * size;
  if (joins) {
    dims.back() *= size;
    for (size_t w = 0; w < strides.size(); ++w) strides[w].back() = steps[w];
    return;
  }
  dims.push_back(size);
  for (size_t w = 0; w < strides.size(); ++w) strides[w].push_back(steps[w]);
}

}  // namespace ingot::kernels
