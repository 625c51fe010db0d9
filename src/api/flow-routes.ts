/** What people see and do in flow: DAGs, versions, jobs and tasks. Deployments and rollbacks are commands. */
import { idField, nameField } from '#contract'
import {
  cancelFlowTask,
  dagPageView,
  dagVersionPageView,
  explainFlowTask,
  type FlowDeps,
  flowJobPageView,
  flowTaskStatus,
  flowTaskWhyView,
  listDags,
  listDagVersions,
  listFlowJobs,
  listFlowTasks,
  readFlowTaskPageView,
  readFlowTaskView,
  retryFlowTask,
  toDagVersionView,
  toDagView,
  toFlowJobView,
  toFlowTaskWhyView,
  toReadFlowTaskView,
} from '#domains/flow'
import { accept } from '#kernel/refusal'
import { cutPage } from '#store'
import { type Call, resource, routes, shown } from './resource.ts'

type Deps = { readonly flow: FlowDeps }

const { list, get, post } = resource<Deps>('flow')
const name = (example: string) => nameField(example, 63)
const params = { task_id: idField('flow_task') }
const answers = { 200: ['The task.', readFlowTaskView] } as const

type OfTask = Call<Deps, {}, typeof params>
const read = ({ deps, principal, params: { task_id } }: OfTask) =>
  explainFlowTask(deps.flow.commands.db, principal.orgId, task_id)
/** Does it, and answers with the task as it stands then. */
const act = (change: typeof cancelFlowTask) => async (call: OfTask) => {
  const changed = await change(call.deps.flow, call.principal.orgId, call.params.task_id)
  return changed.ok ? shown(read(call), toReadFlowTaskView) : changed
}

export const flowRoutes = routes({
  listFlowDags: list('/flow/dags', {
    summary: 'List the DAGs of the organisation with the version that serves',
    role: 'reader',
    page: [dagPageView, 'A page of DAGs.'],
    scope: ({ principal }) => [principal.orgId],
    async read({ deps, principal: { orgId } }, from, limit) {
      const rows = await listDags(deps.flow.commands.db, { orgId, after: from?.[0] ?? null, limit: limit + 1 })
      return accept(cutPage(rows, limit, toDagView, ({ dag_name }) => dag_name))
    },
  }),
  listFlowDagVersions: list('/flow/dags/{name}/versions', {
    summary: 'List the versions of a DAG, newest first',
    role: 'reader',
    params: { name: name('shop') },
    page: [dagVersionPageView, 'A page of versions.'],
    problems: [404],
    scope: ({ principal, params: { name: dag } }) => [principal.orgId, dag],
    async read({ deps, principal: { orgId }, params: { name: dag } }, from, limit) {
      const page = { orgId, dag, before: from?.[0] ?? null, limit: limit + 1 }
      const rows = await listDagVersions(deps.flow.commands.db, page)
      return rows.ok ? accept(cutPage(rows.value, limit, toDagVersionView, ({ id }) => id)) : rows
    },
  }),
  listFlowJobs: list('/flow/jobs', {
    summary: 'List the jobs that serve, with the state that their tasks tell',
    role: 'reader',
    query: { dag: name('shop').optional() },
    page: [flowJobPageView, 'A page of jobs.'],
    scope: ({ principal, query: { dag } }) => [principal.orgId, dag ?? null],
    async read({ deps, principal: { orgId }, query: { dag } }, from, limit) {
      const after = from?.[0] && from[1] ? ([from[0], from[1]] as const) : null
      const rows = await listFlowJobs(deps.flow.commands.db, { orgId, after, dag, limit: limit + 1 })
      return accept(cutPage(rows, limit, toFlowJobView, ({ dag_name, name: job }) => [dag_name, job]))
    },
  }),
  listFlowTasks: list('/flow/tasks', {
    summary: 'List the tasks of jobs, newest first',
    role: 'reader',
    query: { dag: name('shop').optional(), job: name('daily').optional(), status: flowTaskStatus.optional() },
    page: [readFlowTaskPageView, 'A page of tasks.'],
    scope: ({ principal, query: { dag, job, status } }) => [principal.orgId, dag ?? null, job ?? null, status ?? null],
    async read({ deps, principal: { orgId }, query: { dag, job, status } }, from, limit) {
      const page = { orgId, before: from?.[0] ?? null, limit: limit + 1, dag, job, status }
      const rows = await listFlowTasks(deps.flow.commands.db, page)
      return accept(cutPage(rows, limit, toReadFlowTaskView, ({ id }) => id))
    },
  }),
  getFlowTask: get('/flow/tasks/{task_id}', {
    summary: 'Get a task of a job',
    role: 'reader',
    params,
    answers,
    problems: [400, 404],
    handle: (call) => shown(read(call), toReadFlowTaskView),
  }),
  explainFlowTask: get('/flow/tasks/{task_id}/why', {
    summary: 'Get the cause of a task and the reason for its status, from the rows that decided them',
    role: 'reader',
    params,
    answers: { 200: ['The explanation.', flowTaskWhyView] },
    problems: [400, 404],
    handle: (call) => shown(read(call), toFlowTaskWhyView),
  }),
  cancelFlowTask: post('/flow/tasks/{task_id}/cancel', {
    summary: 'Cancel a task that has not ended; the lease of a running one ends',
    role: 'writer',
    params,
    answers,
    problems: [400, 404, 409],
    handle: act(cancelFlowTask),
  }),
  retryFlowTask: post('/flow/tasks/{task_id}/retry', {
    summary: 'Begin the next attempt of a failed task now, also if none was left',
    role: 'writer',
    params,
    answers,
    problems: [400, 404, 409],
    handle: act(retryFlowTask),
  }),
})
