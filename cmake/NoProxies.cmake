# ctest reads this file where it lists the tests, so they inherit what is left of the environment: what they ask for on
# loopback must not go through the proxy of the machine.
foreach(variable http_proxy https_proxy grpc_proxy all_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY)
  unset(ENV{${variable}})
endforeach()
