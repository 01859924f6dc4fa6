import{d as a}from"./chunk-SLP47ERJ.js";import"./chunk-T2ALHE42.js";import"./chunk-MGKJPKJT.js";export{a as passport};
