"""`course kernels` keeps nbgrader's servers and menus out of the learner's JupyterLab."""

import json

from course_lib.lessons.quiet_nbgrader import quiet_nbgrader


def test_nbgraders_extensions_are_switched_off_and_others_stay(tmp_path):
    server = tmp_path / "etc/jupyter/jupyter_server_config.json"
    server.parent.mkdir(parents=True)
    mine = {
        "mine": 1,
        "ServerApp": {"jpserver_extensions": {"other": True, "nbgrader.server_extensions.formgrader": True}},
    }
    server.write_text(json.dumps(mine), encoding="utf-8")
    for _ in range(2):
        quiet_nbgrader(str(tmp_path))
    have = json.loads(server.read_text(encoding="utf-8"))
    extensions = have["ServerApp"]["jpserver_extensions"]
    assert have["mine"] == 1 and extensions["other"]
    assert extensions["nbgrader.server_extensions.formgrader"], "a teacher's own choice stays"
    assert extensions["nbgrader.server_extensions.course_list"] is False
    page = json.loads((tmp_path / "etc/jupyter/labconfig/page_config.json").read_text(encoding="utf-8"))
    assert page == {"disabledExtensions": {"@jupyter/nbgrader": True}}
