#include "runtime/lane.h"

#include "base/error.h"

namespace ingot::runtime {

void Lane::note_end(backend::Stream& stream) {
  if (end_ == nullptr) {
    end_ = stream.new_point();
  } else {
    stream_->come_after(*end_);  // the run before may be in another stream of the caller, as a recording with copies of its own
  }
  stream.set(*end_);
}

void Lane::wait() {
  if (end_ == nullptr) return;
  stream_->come_after(*end_);
  stream_->wait();
}

void Lane::Loading::begin() {
  if (lane_.free_ == nullptr) lane_.free_ = stream_.new_point();
  while (lane_.arrived_.size() < loads_.loads.size()) lane_.arrived_.push_back(stream_.new_point());
  start(Streaming::none);
}

// After an error there may be copies that no step waits for. Later work in the session's stream must still wait for them.
Lane::Loading::~Loading() {
  if (!ahead_) return;
  try {
    lane_.stream_->set(*lane_.free_);
    stream_.come_after(*lane_.free_);
  } catch (const Error&) {
    // If the driver refuses this too, it runs nothing any more.
  }
}

// Starts the copies that wait for step `after`.
void Lane::Loading::start(uint32_t after) {
  if (started_ == loads_.loads.size() || loads_.loads[started_].after != after) return;
  stream_.set(*lane_.free_);
  lane_.stream_->come_after(*lane_.free_);
  ahead_ = true;
  for (; started_ < loads_.loads.size() && loads_.loads[started_].after == after; ++started_) {
    for (const Streaming::Copy& c : loads_.loads[started_].copies) lane_.stream_->copy(ring_ + c.offset, c.from, c.bytes);
    lane_.stream_->set(*lane_.arrived_[started_]);
  }
}

void Lane::Loading::before(uint32_t step) {
  for (; met_ < started_ && loads_.loads[met_].step == step; ++met_) stream_.come_after(*lane_.arrived_[met_]);
  if (met_ == started_) ahead_ = false;
}

}  // namespace ingot::runtime
