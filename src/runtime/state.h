// The memory that a model writes (buffers, caches, counters), separate from the sessions that run it.
#pragma once
#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/function_ref.h"
#include "runtime/weights.h"

namespace ingot::runtime {

// The users of a state: one at a time, and the work of each in a stream comes after that of the ones before.
class StateUsers {
 public:
  // Error (invalid_input) if another user has not left.
  void enter();
  void leave() { used_.store(false, std::memory_order_release); }
  // The stream's later work comes after all earlier work with the state. Until the user has called set_end, the next one waits for the whole device.
  void begin(const backend::Backend&, const backend::Stream&);
  void set_end(const backend::Stream& stream);

 private:
  std::atomic<bool> used_ = false;
  std::unique_ptr<backend::Point> last_;  // after the last work
  bool lost_ = false;                     // there may be later work
};

// Has an entry for each weight that some function of the plan writes and, in a shared state, for each row-major input that some function writes (a cache of
// dynamic length). Functions that write the same weight, or an input of the same name, share its entry. An entry gets memory and its first value (the
// weight's current one; zeros for an input) when it is first used. The caller may bind memory to it instead.
//
// Any thread may use it, but one user at a time: a run of a session, or one of the calls below. A second one gets Error (invalid_input).
class State {
 public:
  // one_session: used in that session's stream alone, so no ordering is needed. shared: sessions with different streams may use it one after another.
  enum class Of { one_session, shared };
  // Sizes of the symbols in the dims of inputs, by name; the others have their usual size. Error (invalid_input) for names that the plan does not have.
  using Sizes = std::vector<std::pair<std::string, int64_t>>;
  State(std::shared_ptr<Weights> weights, Allocator& allocator, Of of, Sizes sizes = {});

  // Held for the length of a run or a call. On a GPU, the work that the user adds to the stream waits for all earlier work with the state, in any stream.
  // While the caller records the stream, ordering is up to the caller.
  class Use {
   public:
    explicit Use(State&, const backend::Stream* = nullptr);
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
    // All work of this use has been added to the stream. Without it, the next user waits for the whole device.
    void finish();

   private:
    // Marks the state as in use.
    class Claim {
     public:
      explicit Claim(StateUsers& users) : users_(users) { users.enter(); }
      ~Claim() { users_.leave(); }
      Claim(const Claim&) = delete;
      Claim& operator=(const Claim&) = delete;

     private:
      StateUsers& users_;
    };
    State& state_;
    const Claim claim_;
    const backend::Stream* stream_ = nullptr;  // in which our work must be ordered
  };

  size_t size() const { return entries_.size(); }
  // Name, dtype and dims.
  const plan::Weight& what(size_t entry) const { return entries_[entry].what; }
  bool is_input(size_t entry) const { return entries_[entry].weight == no_weight; }
  static constexpr size_t none = SIZE_MAX;
  // The entry of the input of this name, or none.
  size_t input(std::string_view name) const;
  // The entry of a weight, by its index in the plan, or by its name or a name tied to it. Error (invalid_input) if there is none.
  size_t entry_of(uint32_t weight) const;
  size_t find(std::string_view name) const;
  // Later first values come from these weights, which must be a fork of the earlier ones.
  void set_weights(std::shared_ptr<Weights> weights) { weights_ = std::move(weights); }
  // Error (invalid_input) unless sessions of these weights can use it: same plan, same device.
  void check_fits(const Weights&) const;

  // For the current user: the memory of an entry. Allocates it and copies the first value in the stream if there is none.
  const HostTensor& memory(size_t entry, backend::Stream&);
  bool is_bound(size_t entry) const { return entries_[entry].bound; }

  // ---- calls: copies have arrived when they return, and an error changes nothing

  // Gives memory and first values to all entries whose weights have values.
  void begin();
  // Enlarges some symbols: elements keep their indices, new ones are zero. Entries in the caller's memory must not change size.
  void grow(const Sizes& sizes);
  // From now on the entry is this memory of the caller, of the weight's dtype and sizes and with any strides. It must outlive its use. Null data: the state's
  // own memory again, with the weight's value at the next use.
  void bind(size_t entry, const HostTensor& memory);
  // Copies an entry to (`out`) or from dense row-major memory of the host or the device.
  void copy(size_t entry, void* data, size_t bytes, bool out);
  // Copies all entries to (`out`) or from dense host memory, one after another.
  void copy_all(std::byte* data, bool out);
  // Sets entries back to their weights' values; with `own_only`, only those in the state's own memory.
  void reset(bool own_only = false);
  // A new state with the same sizes and values, in its own memory.
  std::shared_ptr<State> fork();
  // Copies all entries of another state of the same plan on the same device.
  void copy_from(State& other);
  // The entry's tensor; all work with it is done.
  HostTensor tensor(size_t entry);

 private:
  static constexpr uint32_t no_weight = UINT32_MAX;
  struct Entry {
    plan::Weight what;
    uint32_t weight = no_weight;
    bool bound = false;
    MemoryBlock own;
    HostTensor memory;              // `own` or the bound memory; null data: none yet
    std::vector<int64_t> strides;   // of the bound memory
  };
  bool on_device() const { return weights_->backend().memory() != nullptr; }
  void with_stream(FunctionRef<void(backend::Stream&)> work);
  void transfer(const Entry&, void* dense, bool out, backend::Stream&) const;
  std::vector<plan::Weight> inputs_at(const Sizes&) const;
  const std::byte* first_value(const Entry&) const;
  [[noreturn]] static void no_first_value(const Entry&, const char* remedy);
  const std::byte* begins_with(const Entry&, MemoryBlock& zeros) const;
  MemoryBlock room(const plan::Weight&) const;
  static void keep_memory(Entry&, MemoryBlock own);
  void check_reachable(const Entry&) const;

  std::shared_ptr<Weights> weights_;
  Allocator& allocator_;  // for host memory
  const Of of_;
  Sizes sizes_;
  std::vector<Entry> entries_;
  StateUsers users_;
};

}  // namespace ingot::runtime
