"""pytest's plug-in of headproof. It imports headproof only where a test is decorated with
headproof.pytest.theorems, so that it costs nothing elsewhere."""


def pytest_addoption(parser):
    group = parser.getgroup("headproof", "theorems about attention (headproof)")
    group.addoption("--headproof-seed", type=int, default=None,
                    help="where the inputs of theorems come from; 0 by default")
    group.addoption("--headproof-seconds", type=float, default=None,
                    help="the time for each theorem, about; 2 by default")


def pytest_configure(config):
    config.addinivalue_line(
        "markers",
        "headproof_theorems(function): a test of each theorem; see headproof.pytest.theorems")


def pytest_generate_tests(metafunc):
    mark = metafunc.definition.get_closest_marker("headproof_theorems")
    if mark is not None:
        from headproof.pytest import parametrize

        parametrize(metafunc, mark)
