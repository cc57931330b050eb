"""`course kernels` sets up JupyterLab for the lessons, and leaves alone what somebody has set before."""

import json

from course_lib.command.kernels import LAB_SETTINGS, SETTINGS, write_settings


def test_all_settings_are_written_and_present_ones_stay(tmp_path):
    server = tmp_path / "etc/jupyter/jupyter_server_config.json"
    server.parent.mkdir(parents=True)
    mine = {
        "mine": 1,
        "ServerApp": {"jpserver_extensions": {"other": True, "nbgrader.server_extensions.formgrader": True}},
    }
    server.write_text(json.dumps(mine), encoding="utf-8")
    for _ in range(2):
        assert write_settings(str(tmp_path)) == tmp_path / LAB_SETTINGS
    have = json.loads(server.read_text(encoding="utf-8"))
    extensions = have["ServerApp"]["jpserver_extensions"]
    assert have["mine"] == 1 and extensions["other"]
    assert extensions["nbgrader.server_extensions.formgrader"], "a teacher's own choice stays"
    assert extensions["nbgrader.server_extensions.course_list"] is False
    for name, wanted in SETTINGS.items():
        if name != "etc/jupyter/jupyter_server_config.json":
            assert json.loads((tmp_path / name).read_text(encoding="utf-8")) == wanted
