/** Reports: of a mission, of its tasks, and those that people file. */
import { idField } from '#contract'
import {
  fileReport,
  fileReportBody,
  listReports,
  type MissionDeps,
  missionReportView,
  readMissionReport,
  reportPageView,
  reportType,
  reportView,
  requireMission,
  toReportView,
} from '#domains/missions'
import { encodeId } from '#kernel/ids'
import { accept } from '#kernel/refusal'
import { cutPage } from '#store'
import { resource, routes, shown } from './resource.ts'

const { list, get, post } = resource<MissionDeps>('missions')

export const reportRoutes = routes({
  getMissionReport: get('/missions/{mission_id}/report', {
    summary: 'Get the report of a mission that has ended, with its text',
    role: 'reader',
    params: { mission_id: idField('mission') },
    answers: { 200: ['The report.', missionReportView] },
    problems: [400, 404, 409, 503],
    handle: ({ deps, workspaceId, params: { mission_id } }) =>
      shown(readMissionReport(deps, workspaceId, mission_id), ({ report, text }) => ({
        ...toReportView(report),
        mission_id: encodeId('mission', mission_id),
        text,
      })),
  }),
  listReports: list('/reports', {
    summary: 'List the reports of missions and tasks, newest first',
    role: 'reader',
    query: {
      mission_id: idField('mission')
        .optional()
        .meta({ description: 'Only the reports of this mission and its tasks.' }),
      report_type: reportType.optional(),
    },
    page: [reportPageView, 'A page of reports.'],
    problems: [404],
    scope: ({ workspaceId, query: { mission_id, report_type } }) => [
      workspaceId,
      mission_id ?? null,
      report_type ?? null,
    ],
    async read({ deps, workspaceId, query: { mission_id: missionId, report_type: type } }, from, limit) {
      const { db } = deps.commands
      const found = missionId === undefined ? accept(undefined) : await requireMission(db, workspaceId, missionId)
      if (!found.ok) return found
      const before = from?.[0] === undefined ? null : Number(from[0])
      const reports = await listReports(db, workspaceId, { before, limit: limit + 1, missionId, type })
      return accept(cutPage(reports, limit, toReportView, ({ id }) => String(id)))
    },
  }),
  fileReport: post('/reports', {
    summary:
      'File a report whose content is an artifact; the one that would follow from the end of its task is left out',
    role: 'writer',
    body: [fileReportBody, 'The report'],
    answers: { 201: ['The report.', reportView] },
    problems: [404],
    handle: ({ deps, principal, workspaceId, body }) =>
      shown(fileReport(deps, principal, { ...body, workspaceId }), toReportView),
  }),
})
