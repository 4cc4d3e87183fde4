// Whether the tensors that an engine's weights are have changed since it was prepared from them.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/fork.h"

namespace ingot_torch {

// Words of the process's memory with the values they had. python/ingot/watch.py chooses them: where a tensor's parts are, how often torch has counted a write
// to it. None of them waits for another, so 200 weights cost a microsecond, and a few when the caches are cold.
class Watch {
 public:
  struct Word {
    const uint64_t* at;
    uint64_t value;
  };
  struct Count {
    const uint32_t* at;
    uint64_t value;
  };
  // Python's: brings what has changed to the engines. Returns 0, or an ingot_status with its text.
  using Changed = int (*)(char* text, size_t room);

  explicit Watch(Changed changed) : changed_(changed) {}
  // Other words. Nobody reads the old ones when it returns. `unknown`: they do not tell, Python is asked each time.
  void set(const Word* words, size_t count, const Count* counts, size_t counted, bool unknown);
  bool same() const;
  // Before an engine runs. Raises what Python says.
  void follow() const;

 private:
  Changed changed_;
  mutable ingot::SharedMutex mutex_;
  std::vector<Word> words_;  // a word may be read only while the ones before it are the same
  std::vector<Count> counts_;
  bool unknown_ = true;
};

}  // namespace ingot_torch
