/** Groups of jobs over HTTP: queued together, with a status that follows from their members. */
import { createRoute, type z } from '@hono/zod-openapi'
import { pageView } from '#contract'
import {
  type GroupReport,
  groupView,
  listGroups,
  readGroup,
  submitGroup,
  submitGroupBody,
  submittedGroupView,
  toGroupView,
  toSubmittedGroupView,
} from '#domains/scheduler'
import { openPageCursors } from './page-cursor.ts'
import { needs } from './route-access.ts'
import { headOf } from './route-head.ts'
import { bodyProblems, jsonAnswer, jsonBody, limitOf, newRouter, problems, queryOf, refused } from './route-kit.ts'
import {
  bodyOf,
  closePage,
  groupParam,
  mayRun,
  openPage,
  type SchedulerRouteDeps,
  schedulerPage,
  withScheduler,
} from './scheduler-api.ts'

const reads = headOf('scheduler', needs('reader', 'org'))
const writes = headOf('scheduler', needs('writer', 'org'))

const query = queryOf({})

const getGroups = createRoute({
  ...reads('get', '/scheduler/groups', 'listSchedulerGroups', 'Groups of jobs, newest first'),
  request: { query: queryOf(schedulerPage) },
  responses: { 200: jsonAnswer(pageView(groupView, 'SchedulerGroupPage'), 'A page.'), ...problems(400, 404, 422) },
})
const postGroup = createRoute({
  ...writes(
    'post',
    '/scheduler/groups',
    'submitSchedulerGroup',
    'Queue several jobs that belong together: all or none',
  ),
  request: { query, body: jsonBody(submitGroupBody, 'The group') },
  responses: { 201: jsonAnswer(submittedGroupView, 'The group and its jobs.'), ...problems(404, ...bodyProblems) },
})
const getGroup = createRoute({
  ...reads(
    'get',
    '/scheduler/groups/{group_id}',
    'readSchedulerGroup',
    'One group, its status and how far its members are',
  ),
  request: { query, params: groupParam },
  responses: { 200: jsonAnswer(groupView, 'The group.'), ...problems(400, 404, 422) },
})
export function schedulerGroupRoutes(deps: SchedulerRouteDeps) {
  const cursors = openPageCursors(deps.cursorKey)
  return newRouter()
    .openapi(getGroups, (c) => {
      const { cursor, ...page } = c.req.valid('query')
      const scope = ['listSchedulerGroups']
      const limit = limitOf(page)
      const done = withScheduler(c, deps, (scheduler) => {
        const before = openPage(cursors, scope, cursor)
        if (!before.ok) return before
        return listGroups(scheduler, { limit, ...(before.value === undefined ? {} : { before: before.value }) })
      })
      const seal = ({ group }: GroupReport) => cursors.seal(scope, [group.group_id])
      return done.ok ? c.json(closePage(done.value, limit, { view: toGroupView, seal }), 200) : refused(c, done)
    })
    .openapi(postGroup, async (c) => {
      const body = await bodyOf<z.input<typeof submitGroupBody>>(c)
      const done = withScheduler(c, deps, (scheduler) => {
        const allowed = mayRun(c, scheduler, c.req.valid('json').jobs)
        return allowed.ok ? submitGroup(scheduler, body) : allowed
      })
      return done.ok ? c.json(toSubmittedGroupView(done.value), 201) : refused(c, done)
    })
    .openapi(getGroup, (c) => {
      const done = withScheduler(c, deps, (scheduler) => readGroup(scheduler, c.req.valid('param').group_id))
      return done.ok ? c.json(toGroupView(done.value), 200) : refused(c, done)
    })
}
