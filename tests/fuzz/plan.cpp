// The plan loader and the runtime under hostile files: every input ends in a run, or in an ingot::Error, or lacks memory.
//
// Checksums are made right before a file is read: they would stop all but a few mutations. Half of the mutations know the plan's structure.
// libFuzzer calls LLVMFuzzerTestOneInput and LLVMFuzzerCustomMutator.
#include <algorithm>
#include <cstdint>
#include <new>
#include <vector>

#include "../robustness/seal.h"
#include "base/error.h"
#include "plan/describe.h"
#include "plan_mutator.h"
#include "run.h"

using namespace ingot;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  MemoryBlock file(size, fuzz::little);
  std::copy_n(reinterpret_cast<const std::byte*>(data), size, file.data());
  std::span<std::byte> bytes(file.data(), size);
  if (!plan::seal(bytes)) return 0;
  try {
    auto plan = plan::read(bytes, nullptr, plan::Trust::code);
    plan::describe(*plan);
    const bool for_gpu = std::any_of(plan->targets.begin(), plan->targets.end(), [](const plan::ForTarget& t) { return t.target.kind == Target::Kind::cuda; });
    if (for_gpu) {
      fuzz::run_on_pretend_gpu(*plan);
    } else {
      for (size_t t = 0; t < plan->targets.size(); ++t) fuzz::run(*plan, t);  // whatever device they say they are for
    }
  } catch (const Error&) {
  } catch (const std::bad_alloc&) {
  }
  return 0;
}

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t most);

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t most, unsigned seed) {
  if (seed % 2 == 0) return LLVMFuzzerMutate(data, size, most);
  std::vector<std::byte> bytes(size), made;
  std::copy_n(reinterpret_cast<const std::byte*>(data), size, bytes.data());
  try {
    if (!plan::seal(bytes)) return LLVMFuzzerMutate(data, size, most);
    plan::Plan plan = *plan::read(bytes, nullptr);
    for (plan::ForTarget& t : plan.targets) {
      for (plan::DeviceCode& code : t.code) code.image.resize(std::min<size_t>(code.image.size(), 16));  // nothing reads it
    }
    fuzz::PlanMutator mutator(plan, seed);
    for (unsigned changes = 1 + seed / 2 % 3; changes > 0; --changes) mutator.change();
    made = plan::write(plan);
  } catch (const Error&) {  // what does not read as a plan is changed byte by byte
  }
  if (made.empty() || made.size() > most) return LLVMFuzzerMutate(data, size, most);
  std::copy_n(reinterpret_cast<const uint8_t*>(made.data()), made.size(), data);
  return made.size();
}
