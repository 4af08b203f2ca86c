print("store-simulator")
