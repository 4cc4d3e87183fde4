// The engines that the ops run: (plan, weights) pairs, and the idle sessions of plans.
#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "base/fork.h"
#include "torch/tensors.h"
#include "torch/watch.h"

namespace ingot_torch {

// A plan and its idle sessions, which engines with forks of the same weights share.
struct Pool {
  ingot_plan* plan = nullptr;
  const ingot_options* options = nullptr;  // of all sessions
  ingot::Mutex mutex;
  // Per function: idle sessions, which inputs are written, the inputs' axis orders, the number of states, and the outputs.
  struct Function {
    struct Session {
      ingot_session* handle;
      uint64_t weights;  // Entry::version of the weights that it has
    };
    std::vector<Session> idle;
    std::vector<bool> written_inputs;
    std::vector<Order> orders;               // of the inputs
    size_t written = 0, states = 0;
    std::vector<ingot_dtype> outputs;
    std::vector<bool> open;                  // outputs whose sizes are read from data
    bool any_open = false;
  };
  std::unordered_map<int64_t, Function> functions;

  // Calls under way, which may read values that are replaced meanwhile. Those that begin now are counted in calls[turn], so that a wait for those before ends
  // however many begin.
  struct Calls {
    std::array<size_t, 2> count{};
    size_t turn = 0;
    uint32_t forks = ingot::fork_count();
  };
  ingot::LongMutex waiting;  // one wait at a time
  // Only under the mutex. In a child the other threads' calls are not there.
  Calls& calls();
  // Until the calls that are under way now have ended.
  void wait();

  Pool(ingot_plan* of, const ingot_options* with) : plan(of), options(with) {}
  ~Pool();

 private:
  Calls calls_;
};

// An engine: weights, and the pool of the plan that they are for.
struct Entry {
  static inline std::atomic<bool> any = false;  // one was created
  static inline std::atomic<uint64_t> versions = 0;
  std::shared_ptr<Pool> pool;
  ingot_weights* weights = nullptr;
  const Watch* watch = nullptr;   // of a registered engine: detects changes of the tensors that its weights were made from
  int32_t gpu = -1;               // its GPU; -1: the CPU
  ingot_weights* used = nullptr;  // for later runs: a fork of `weights`, or null for `weights`. Guarded by the pool's mutex
  uint64_t version = ++versions;  // of what its runs read, among those of all entries. Guarded by the pool's mutex

  Entry(std::shared_ptr<Pool> of, ingot_weights* read) : pool(std::move(of)), weights(read) { any = true; }
  // Sets `gpu` from the weights.
  void find_device();
  ~Entry();
};

// The engine of a plan tensor: a registered one, or that of a saved program with these weights. Raises if there is none.
std::shared_ptr<Entry> find(const Tensor& plan, const std::vector<Tensor>& weights);
// The registered engine of this number, with its current weights. Raises if there is none.
std::shared_ptr<Entry> registered(uint64_t number);

// Takes a session from the pool for one call; on a GPU, for torch's current stream. The engine must outlive it.
class Lease {
 public:
  Lease(Entry& entry, int64_t function);
  ~Lease();
  const std::vector<bool>& written_inputs() const { return function_->written_inputs; }
  // Axis order of an input; row-major if there is no such input.
  Order order(size_t input) const { return input < function_->orders.size() ? function_->orders[input] : Order(); }
  size_t written() const { return function_->written; }
  size_t states() const { return function_->states; }
  const std::vector<ingot_dtype>& outputs() const { return function_->outputs; }
  bool is_open(size_t output) const { return function_->open[output]; }
  bool any_open() const { return function_->any_open; }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  ingot_session* get() const { return session_; }

 private:
  void prepare(uint32_t function);
  void take_weights();
  Entry& entry_;
  Pool::Function* function_ = nullptr;  // in a map, whose elements do not move
  ingot_session* session_ = nullptr;
  uint64_t weights_ = 0;                // Entry::version of the session's weights
  size_t turn_ = 0;                     // where the call is counted
};

}  // namespace ingot_torch
