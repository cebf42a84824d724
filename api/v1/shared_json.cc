#include "api/v1/shared_json.h"

namespace lockstep::api {

SharedJson::SharedJson(const SharedJson& other) : held_(other.held_) {
  if (held_ != nullptr && !other.is_parsed()) held_ = std::make_shared<Held>(held_->text);
}

SharedJson& SharedJson::operator=(const SharedJson& other) {
  return *this = SharedJson(other);
}

const nlohmann::json& SharedJson::operator*() const {
  if (is_parsed()) return held_->value;
  std::call_once(held_->parse, [held = held_.get()] {
    held->value = nlohmann::json::parse(*held->text);
    held->is_parsed.store(true, std::memory_order_release);
  });
  return held_->value;
}

SharedJson SharedJson::Packed() const {
  return SharedJson(std::make_shared<Held>(Text()));
}

std::shared_ptr<const std::string> SharedJson::Text() const {
  if (held_->text != nullptr) return held_->text;
  auto text = std::make_shared<std::string>(held_->value.dump());
  text->shrink_to_fit();
  return text;
}

bool SharedJson::empty() const {
  if (is_parsed()) return held_->value.empty();
  return *held_->text == "{}" || *held_->text == "[]";
}

}  // namespace lockstep::api
