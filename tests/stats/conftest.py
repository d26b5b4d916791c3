from hypothesis import settings

# The same examples on every run, and no time limit: the two cores of a build machine are often busy.
settings.register_profile("dprepro", deadline=None, derandomize=True)
settings.load_profile("dprepro")
