"""Every address of the portal. tests/portal/test_routes.py says of each who gets what; list new ones there."""

from django.contrib import admin
from django.contrib.auth.views import LogoutView
from django.urls import include, path

from portal.views import (
    home,
    node,
    nodes,
    people,
    queue,
    reallocate,
    reallocation,
    request,
    requests,
    signing,
    simulator,
    submit,
    timeline,
    tree,
    workload,
    workloads,
)

urlpatterns = [
    path("", home.Home.as_view(), name="home"),
    path("login/", signing.SignIn.as_view(), name="login"),
    path("logout/", LogoutView.as_view(), name="logout"),
    path("theme/", signing.theme, name="theme"),
    path("tree/", tree.Tree.as_view(), name="tree"),
    path("tree/<slug:cluster>/", tree.Tree.as_view(), name="tree"),
    path("budget/<str:code>/", node.NodeBudget.as_view(), name="node"),
    path("budget/<str:code>/reallocate/", reallocate.Reallocate.as_view(), name="reallocate"),
    path("budget/<str:code>/people/", people.NodePeople.as_view(), name="node_people"),
    path("reallocations/<int:number>/", reallocation.ReallocationPage.as_view(), name="reallocation"),
    path("reallocations/<int:number>/<slug:verb>/", reallocation.ReallocationPage.as_view(), name="decide"),
    path("desk/", requests.OnDesk.as_view(), name="desk"),
    path("requests/", requests.Requests.as_view(), name="requests"),
    path("requests/new/", requests.WriteRequest.as_view(), name="new_request"),
    path("requests/<int:number>/", request.RequestPage.as_view(), name="request"),
    path("requests/<int:number>/edit/", requests.WriteRequest.as_view(), name="edit_request"),
    path("requests/<int:number>/files/<int:attachment>/", request.Download.as_view(), name="attachment"),
    path("requests/<int:number>/<slug:verb>/", request.RequestPage.as_view(), name="answer"),
    path("people/", people.People.as_view(), name="people"),
    path("people/<int:number>/", people.PersonPage.as_view(), name="person"),
    path("people/<int:number>/<slug:verb>/", people.PersonPage.as_view(), name="change_person"),
    path("delegations/", people.Delegations.as_view(), name="delegations"),
    path("delegations/<int:number>/end/", people.Delegations.as_view(), name="end_delegation"),
    path("house/", people.House.as_view(), name="house"),
    path("queue/", queue.Queue.as_view(), name="queue"),
    path("queue/<slug:cluster>/", queue.Queue.as_view(), name="queue"),
    path("nodes/", nodes.Nodes.as_view(), name="nodes"),
    path("nodes/<slug:cluster>/", nodes.Nodes.as_view(), name="nodes"),
    path("nodes/<slug:cluster>/<str:name>/drain/", nodes.OperateNode.as_view(verb="drain"), name="drain"),
    path("nodes/<slug:cluster>/<str:name>/resume/", nodes.OperateNode.as_view(verb="resume"), name="resume"),
    path("timeline/", timeline.ClusterTimeline.as_view(), name="timeline"),
    path("clusters/<slug:cluster>/timeline/", timeline.ClusterTimeline.as_view(), name="timeline"),
    path("workloads/", workloads.Workloads.as_view(), name="workloads"),
    path("workloads/new/", submit.Submit.as_view(), name="submit"),
    path("workloads/new/preview/", submit.Preview.as_view(), name="preview"),
    path("workloads/<str:code>/", workload.WorkloadPage.as_view(), name="workload"),
    path("workloads/<str:code>/text/", workload.WorkloadText.as_view(), name="workload_text"),
    path("workloads/<str:code>/log/", workload.WorkloadLog.as_view(), name="log"),
    path("workloads/<str:code>/cancel/", workload.CancelWorkload.as_view(), name="cancel"),
    path("simulator/", simulator.Simulations.as_view(), name="simulator"),
    path("simulator/new/", simulator.NewSimulation.as_view(), name="new_simulation"),
    path("simulator/<int:number>/", simulator.SimulationPage.as_view(), name="simulation"),
    path("simulator/<int:number>/cancel/", simulator.ChangeSimulation.as_view(verb="cancel"), name="cancel_simulation"),
    path("simulator/<int:number>/again/", simulator.ChangeSimulation.as_view(verb="again"), name="simulate_again"),
    path("simulator/<int:number>/figures/", simulator.SimulationFile.as_view(what="figures"), name="figures_file"),
    path("simulator/<int:number>/scenario/", simulator.SimulationFile.as_view(what="scenario"), name="scenario_file"),
    path("api/v1/", include("portal.api.urls")),
    path("admin/", admin.site.urls),
]

handler400 = "portal.views.errors.bad_request"
handler403 = "portal.views.errors.forbidden"
handler404 = "portal.views.errors.not_found"
handler500 = "portal.views.errors.broken"
