"""Addresses under /api/v1/."""

from django.urls import include, path
from drf_spectacular.views import SpectacularAPIView
from rest_framework.permissions import IsAuthenticated

from portal.api import explaining, figures, me, simulations, slurm, tokens, views, words

urlpatterns = [
    path("agent/", include("portal.api.agent")),
    path("schema/", SpectacularAPIView.as_view(permission_classes=[IsAuthenticated]), name="api-schema"),
    path("glossary/", words.Glossary.as_view(), name="api-glossary"),
    path("clusters/", views.Clusters.as_view(), name="api-clusters"),
    path("clusters/<slug:cluster>/tree/", views.Tree.as_view(), name="api-tree"),
    path("clusters/<slug:cluster>/queue/", views.Queue.as_view(), name="api-queue"),
    path("clusters/<slug:cluster>/nodes/", views.Nodes.as_view(), name="api-nodes"),
    path("clusters/<slug:cluster>/repairs/", views.Repairs.as_view(), name="api-repairs"),
    path("clusters/<slug:cluster>/slurm/", slurm.Slurm.as_view(), name="api-slurm"),
    path("clusters/<slug:cluster>/shares/<str:code>/", views.Shares.as_view(), name="api-shares"),
    path("budget/<str:code>/usage/", views.Usage.as_view(), name="api-usage"),
    path("budget/<str:code>/pace/", figures.PaceOf.as_view(), name="api-pace"),
    path("budget/<str:code>/people/", figures.PeopleUsage.as_view(), name="api-people-usage"),
    path("budget/<str:code>/priorities/", figures.Priorities.as_view(), name="api-priorities"),
    path("clusters/<slug:cluster>/pyramid/", figures.Pyramid.as_view(), name="api-pyramid"),
    path("clusters/<slug:cluster>/fairness/", figures.Fairness.as_view(), name="api-fairness"),
    path("clusters/<slug:cluster>/waits/", figures.Waits.as_view(), name="api-waits"),
    path("clusters/<slug:cluster>/squatting/", figures.Squatting.as_view(), name="api-squatting"),
    path("simulations/", simulations.Simulations.as_view(), name="api-simulations"),
    path("simulations/<int:number>/", simulations.SimulationDetail.as_view(), name="api-simulation"),
    path("me/", me.Me.as_view(), name="api-me"),
    path("tokens/", tokens.Tokens.as_view(), name="api-tokens"),
    path("tokens/<int:number>/", tokens.TokenDetail.as_view(), name="api-token"),
    path("workloads/", views.Workloads.as_view(), name="api-workloads"),
    path("workloads/<str:code>/", views.WorkloadDetail.as_view(), name="api-workload"),
    path("workloads/<str:code>/explain/", explaining.Explain.as_view(), name="api-explain"),
    path("workloads/<str:code>/try/", explaining.TryOther.as_view(), name="api-try"),
    path("workloads/<str:code>/runs/<int:number>/preempted/", explaining.WhyPreempted.as_view(), name="api-preempted"),
    path("workloads/<str:code>/cancel/", views.Cancel.as_view(), name="api-cancel"),
]
