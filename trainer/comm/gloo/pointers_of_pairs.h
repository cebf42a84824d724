// What gloo/transport/tcp/pair.h needs of gloo/common/memory.h, which the packages of Gloo do not
// ship: the build has this in its place. Only libgloo uses these pointers. Here a pair only needs
// to know how large they are, so that its members lie where libgloo has them.
#pragma once

#include <memory>

namespace gloo {

template <typename T>
class NonOwningPtr;

// libgloo keeps one weak pointer in it.
template <typename T>
class WeakNonOwningPtr {
  std::weak_ptr<T> pointer_;
};
static_assert(sizeof(WeakNonOwningPtr<int>) == sizeof(std::weak_ptr<int>) &&
              alignof(WeakNonOwningPtr<int>) == alignof(std::weak_ptr<int>));

}  // namespace gloo
