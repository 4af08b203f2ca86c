print("rightful")
