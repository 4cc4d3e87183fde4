// Detects changes of the tensors from which an engine's weights were prepared.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/fork.h"

namespace ingot_torch {

// Words of the process's memory with their recorded values, chosen by python/ingot/engine/watch.py: pointers inside a tensor, torch's counter of writes to it, and
// samples of its elements.
// The loads are independent, so 200 weights cost a microsecond, or a few with cold caches.
class Watch {
 public:
  struct Word {
    const uint64_t* at;
    uint64_t value;
  };
  struct HalfWord {
    const uint32_t* at;
    uint64_t value;
  };
  // A Python function that brings changed weights to the engines. Returns 0, or an ingot_status and its text.
  using Changed = int (*)(char* text, size_t room);

  explicit Watch(Changed changed) : changed_(changed) {}
  // Replaces the words. When it returns, the old ones are no longer read. `unknown`: words cannot tell, so Python is asked each time.
  void set(const Word* words, size_t count, const HalfWord* halves, size_t half_count, bool unknown);
  bool same() const;
  // Called before an engine runs. Raises the error of the Python function.
  void follow() const;

 private:
  Changed changed_;
  mutable ingot::SharedMutex mutex_;
  std::vector<Word> words_;  // a word may be read only if the ones before it are unchanged
  std::vector<HalfWord> halves_;  // read only if all words are unchanged
  bool unknown_ = true;
};

}  // namespace ingot_torch
